"""Targets of x86: levels of the architecture, for a host the one that it has.

Sizes and instruction sets are the named documents'; the latencies (``*_cycles``) are estimates.
"""

from __future__ import annotations

from kernels.targets.base import Target

_KB, _MB = 1024, 1024 * 1024


TARGETS = (
    Target(
        name="x86-avx2",
        triple="x86_64-linux-gnu",
        cpu="x86-64-v3",
        vector_bits=256,
        vector_registers=16,
        l2_bytes=512 * _KB,
        l3_bytes=16 * _MB,
    ),
    Target(
        name="x86-avx512",
        triple="x86_64-linux-gnu",
        cpu="x86-64-v4",
        vector_bits=512,
        vector_registers=32,
        l2_bytes=_MB,
        l3_bytes=16 * _MB,
    ),
)
