"""Targets of Hexagon.

Sizes and instruction sets are the named documents'; the latencies (``*_cycles``) are estimates.
"""

from __future__ import annotations

from kernels.targets.base import Target

_KB, _MB, _GHZ = 1024, 1024 * 1024, 1_000_000_000


def _hexagon(version: str, vtcm_bytes: int) -> Target:
    """Qualcomm Hexagon Programmer's Reference Manuals: 32 scalar registers of 32 bits, as vectors of 128 bits
    8; HVX has 32 registers of 1024 bits for integers, and no plain fp32. VTCM: TVM's tags
    ``qcom/hexagon-v66`` and ``-v68``. Caches and clock rate: estimates.
    """
    return Target(
        name=f"hexagon-{version}",
        triple="hexagon-unknown-linux-musl",
        cpu=f"hexagon{version}",
        features=(f"+hvx{version}", "+hvx-length128b"),
        vector_registers=8,
        l1_bytes=32 * _KB,
        l2_bytes=_MB,
        l2_cycles=10,
        l3_cycles=0,
        dram_cycles=150,
        integer_vector_bits=1024,
        integer_vector_registers=32,
        fast_bytes=vtcm_bytes,
        hz=_GHZ,
    )


TARGETS = (_hexagon("v66", 256 * _KB), _hexagon("v68", 4 * _MB))
