"""Targets: what code is generated for, and the machine facts that kernels need."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict

from kernels.checked import STRICT_FIELDS, read


@dataclass(frozen=True)
class Target:
    """One kind of machine.

    ``features`` are instruction sets that kernels may use, as LLVM names them (``+dotprod``), beyond what
    ``cpu`` implies or besides it. Sizes are in bytes; ``l3_bytes`` is 0 where there is none. ``*_cycles``
    are the costs of loading one cache line from that level, as the slicing analysis (seed 003, equation 6)
    needs them. ``integer_vector_*`` are 0 where integers share the registers of floats. ``matrix`` names the
    matrix engine's instruction set (``mma`` of Power), empty where there is none. ``hz`` is the usual clock
    rate, 0 where it is unknown; it tells people about a machine and does not make it another kind. Nor do
    the last three, which only rank configs (``kernels/machine.py``): vector multiply-adds a cycle, loads a
    cycle that are sustained while lines arrive from L2 as well, and how many line loads a core and its
    prefetchers overlap.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
    name: str
    triple: str
    cpu: str
    features: tuple[str, ...] = ()
    vector_bits: int = 128
    vector_registers: int = 16
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 256 * 1024
    l3_bytes: int = 0
    line_bytes: int = 64
    l2_cycles: int = 14
    l3_cycles: int = 45
    dram_cycles: int = 200
    integer_vector_bits: int = 0
    integer_vector_registers: int = 0
    matrix: str = ""
    hz: int = 0
    fmas_per_cycle: float = 2.0
    loads_per_cycle: float = 1.6
    misses_in_flight: float = 32.0

    def lanes(self, dtype: str = "float32") -> int:
        """Elements of ``dtype`` in one vector register."""
        bits = self.vector_bits if dtype == "float32" else self.integer_vector_bits or self.vector_bits
        return bits // {"float32": 32, "int32": 32, "int8": 8, "uint8": 8}[dtype]

    def has(self, feature: str) -> bool:
        """Whether kernels may count on an instruction set, for example ``dotprod``.

        On 32-bit Arm they know how to use NEON alone.
        """
        return f"+{feature}" in self.features and (feature == "neon" or not is_arm32(self))

    @property
    def tvm(self) -> dict[str, Any]:
        """What ``tvm.target.Target`` takes."""
        spec: dict[str, Any] = {"kind": "llvm", "mtriple": self.triple, "mcpu": self.cpu, "num-cores": 1}
        features = list(self.features)
        if is_arm32(self):
            # LLVM's other scheduler starts loads so early that sums and operands no longer fit 16 registers.
            features.append("+use-misched")
        if features:
            spec["mattr"] = features
        if self.triple.startswith("powerpc"):
            spec["vector-width"] = self.vector_bits  # TVM guesses the same, and warns at every build
        return spec

    @property
    def key(self) -> str:
        """16 hex digits over everything that makes a kind of machine; two with the same key are one kind."""
        facts = asdict(self)
        for name in _NOT_IN_KEY:
            del facts[name]
        for name in _IN_KEY_IF_SET:
            if not facts[name]:
                del facts[name]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


_NOT_IN_KEY = ("name", "hz", "fmas_per_cycle", "loads_per_cycle", "misses_in_flight")
_IN_KEY_IF_SET = ("integer_vector_bits", "integer_vector_registers", "matrix")
"""Facts younger than the first records, whose keys still hold."""


def is_arm32(target: Target) -> bool:
    """Whether it is an Arm of 32 bits."""
    return target.triple.startswith("arm") and not target.triple.startswith("arm64")


def to_json(target: Target) -> dict[str, Any]:
    """The target as plain JSON values; ``from_json`` reads it back."""
    return {**asdict(target), "features": list(target.features)}


def from_json(value: dict[str, Any]) -> Target:
    """Read a target; raises ValueError that names what is wrong with it."""
    return read(Target, value, "target")


_KB, _MB, _GHZ = 1024, 1024 * 1024, 1_000_000_000


def _hexagon(version: str) -> Target:
    """Qualcomm Hexagon Programmer's Reference Manuals: 32 scalar registers of 32 bits, as vectors of 128 bits
    8; HVX has 32 registers of 1024 bits for integers, and no plain fp32. Caches and clock rate: estimates.
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
        hz=_GHZ,
    )


# Sizes and instruction sets are the named documents'; the latencies (``*_cycles``) are estimates. The
# simulated boards (worker/fleet/sim_models.py) have the targets of the real ones.
CATALOGUE: dict[str, Target] = {
    target.name: target
    for target in (
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
            hz=1_200_000_000,
        ),
        # Arm Cortex-A72 TRM and Raspberry Pi's BCM2711 documentation: 1 MB shared L2.
        Target(
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
            hz=1_500_000_000,
        ),
        # The same with a system of 32 bits: 16 vector registers.
        Target(
            name="rpi4-32",
            triple="armv7-linux-gnueabihf",
            cpu="cortex-a72",
            features=("+neon",),
            vector_registers=16,
            l1_bytes=32 * _KB,
            l2_bytes=_MB,
            l2_cycles=17,
            l3_cycles=0,
            dram_cycles=180,
            fmas_per_cycle=1.0,
            loads_per_cycle=1.0,
            misses_in_flight=5.0,
            hz=1_500_000_000,
        ),
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
        _hexagon("v66"),
        _hexagon("v68"),
    )
}
