"""Targets of Power.

Sizes and instruction sets are the named documents'; the latencies (``*_cycles``) are estimates.
"""

from __future__ import annotations

from kernels.targets.base import Target

_KB, _MB, _GHZ = 1024, 1024 * 1024, 1_000_000_000


TARGETS = (
    # IBM Power E1080 technical overview: 2 MB L2 an SMT8 core, 8 MB of L3 nearby, 3.55 to 4.15 GHz; 64
    # VSX registers. The accumulators of the matrix unit are the first 32 of these.
    Target(
        name="power10",
        triple="powerpc64le-linux-gnu",
        cpu="pwr10",
        vector_registers=64,
        l1_bytes=32 * _KB,
        l2_bytes=_MB,
        l3_bytes=8 * _MB,
        line_bytes=128,
        l2_cycles=14,
        l3_cycles=28,
        dram_cycles=320,
        matrix="mma",
        fmas_per_cycle=4.0,
        loads_per_cycle=2.0,
        misses_in_flight=12.0,
        hz=4 * _GHZ,
    ),
)
