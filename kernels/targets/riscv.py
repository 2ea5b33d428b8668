"""Targets of RISC-V.

Sizes and instruction sets are the named documents'; the latencies (``*_cycles``) are estimates.
"""

from __future__ import annotations

from kernels.targets.base import Target

_KB = 1024


TARGETS = (
    # SpacemiT K1 (Banana Pi BPI-F3), eight in-order X60 cores. Its data sheet: RVA22, RVV 1.0 with vectors of
    # 256 bits, 32 KB L1, 512 KB L2 for four cores. LLVM's cpu of the core's name spills sums of depthwise
    # kernels, and takes instructions that QEMU 7.2 does not know (Zicond).
    Target(
        name="riscv-k1",
        triple="riscv64-linux-gnu",
        cpu="generic-rv64",
        # With zvl256b LLVM takes the 256 bits of a vector of TIR as one register.
        features=("+m", "+a", "+d", "+c", "+zba", "+zbb", "+zbs", "+v", "+zvl256b"),
        vector_bits=256,
        vector_registers=32,
        l1_bytes=32 * _KB,
        l2_bytes=512 * _KB,
        l2_cycles=20,
        l3_cycles=0,
        dram_cycles=200,
        fmas_per_cycle=1.0,
        loads_per_cycle=0.8,
        misses_in_flight=4.0,
        hz=1_600_000_000,
    ),
)
