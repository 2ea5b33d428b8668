"""Targets of Arm: Raspberry Pis and a server.

Sizes and instruction sets are the named documents'; the latencies (``*_cycles``) are estimates.
"""

from __future__ import annotations

from dataclasses import replace

from kernels.targets.base import Target

_KB, _MB = 1024, 1024 * 1024

# Arm Cortex-A72 TRM and Raspberry Pi's BCM2711 documentation: 1 MB shared L2.
_RPI4 = Target(
    name="rpi4",
    triple="aarch64-linux-gnu",
    cpu="cortex-a72",
    vector_registers=32,
    l1_bytes=32 * _KB,
    l2_bytes=_MB,
    l2_cycles=17,
    l3_cycles=0,
    dram_cycles=180,
    fmas_per_cycle=1.0,
    loads_per_cycle=1.0,
    misses_in_flight=5.0,
    streams=8,
    hz=1_500_000_000,
)

TARGETS = (
    # Arm Cortex-A53 TRM and Raspberry Pi's BCM2837 documentation: 512 KB shared L2. In-order core.
    Target(
        name="rpi3",
        triple="aarch64-linux-gnu",
        cpu="cortex-a53",
        vector_registers=32,
        l1_bytes=32 * _KB,
        l2_bytes=512 * _KB,
        l2_cycles=15,
        l3_cycles=0,
        dram_cycles=160,
        fmas_per_cycle=1.0,
        loads_per_cycle=0.8,
        misses_in_flight=4.0,
        streams=8,
        hz=1_200_000_000,
    ),
    _RPI4,
    # The same with a system of 32 bits: 16 vector registers.
    replace(_RPI4, name="rpi4-32", triple="armv7-linux-gnueabihf", features=("+neon",), vector_registers=16),
    # Arm Cortex-A76 TRM and Raspberry Pi's BCM2712 documentation: 512 KB L2 a core, 2 MB shared L3.
    Target(
        name="rpi5",
        triple="aarch64-linux-gnu",
        cpu="cortex-a76",
        features=("+dotprod",),
        vector_registers=32,
        l1_bytes=64 * _KB,
        l2_bytes=512 * _KB,
        l3_bytes=2 * _MB,
        l2_cycles=11,
        l3_cycles=35,
        dram_cycles=260,
        hz=2_400_000_000,
    ),
    # Arm Neoverse V1 TRM; 1 MB L2 a core, 32 MB shared. Kernels use 128-bit NEON, four a cycle.
    Target(
        name="graviton3",
        triple="aarch64-linux-gnu",
        cpu="neoverse-v1",
        features=("+dotprod", "+i8mm", "+bf16"),
        vector_registers=32,
        l1_bytes=64 * _KB,
        l2_bytes=_MB,
        l3_bytes=32 * _MB,
        l2_cycles=13,
        l3_cycles=80,
        dram_cycles=260,
        fmas_per_cycle=4.0,
        loads_per_cycle=2.0,
        hz=2_600_000_000,
    ),
)
