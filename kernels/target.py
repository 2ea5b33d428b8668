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

    Sizes are in bytes; ``l3_bytes`` is 0 where there is none. ``*_cycles`` are the costs of loading one
    cache line from that level, as the slicing analysis (seed 003, equation 6) needs them.
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

    def lanes(self, dtype: str = "float32") -> int:
        """Elements of ``dtype`` in one vector register."""
        return self.vector_bits // {"float32": 32, "int32": 32, "int8": 8, "uint8": 8}[dtype]

    @property
    def tvm(self) -> dict[str, Any]:
        """What ``tvm.target.Target`` takes."""
        spec: dict[str, Any] = {"kind": "llvm", "mtriple": self.triple, "mcpu": self.cpu, "num-cores": 1}
        if self.features:
            spec["mattr"] = list(self.features)
        return spec

    @property
    def key(self) -> str:
        """16 hex digits over everything but the name: two machines with the same key are the same kind."""
        facts = {name: value for name, value in asdict(self).items() if name != "name"}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def to_json(target: Target) -> dict[str, Any]:
    """The target as plain JSON values; ``from_json`` reads it back."""
    return {**asdict(target), "features": list(target.features)}


def from_json(value: dict[str, Any]) -> Target:
    """Read a target; raises ValueError that names what is wrong with it."""
    return read(Target, value, "target")


_KB, _MB = 1024, 1024 * 1024

# Sizes and instruction sets are the named documents'; the latencies (the last three numbers: L2, L3, memory)
# are estimates. The simulated boards (worker/fleet/sim_models.py) have the targets of the real ones.
CATALOGUE: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="x86-avx2",
            triple="x86_64-linux-gnu",
            cpu="x86-64-v3",
            vector_bits=256,
            vector_registers=16,
            l2_bytes=512 * 1024,
            l3_bytes=16 * 1024 * 1024,
        ),
        Target(
            name="x86-avx512",
            triple="x86_64-linux-gnu",
            cpu="x86-64-v4",
            vector_bits=512,
            vector_registers=32,
            l2_bytes=1024 * 1024,
            l3_bytes=16 * 1024 * 1024,
        ),
        # Arm Cortex-A53 TRM and Raspberry Pi's BCM2837 documentation: 512 KB shared L2. In-order core.
        Target(
            "rpi3", "aarch64-linux-gnu", "cortex-a53", (), 128, 32, 32 * _KB, 512 * _KB, 0, 64, 15, 0, 160
        ),
        # Arm Cortex-A72 TRM and Raspberry Pi's BCM2711 documentation: 1 MB shared L2.
        Target("rpi4", "aarch64-linux-gnu", "cortex-a72", (), 128, 32, 32 * _KB, _MB, 0, 64, 17, 0, 180),
        # Arm Cortex-A76 TRM and Raspberry Pi's BCM2712 documentation: 512 KB L2 a core, 2 MB shared L3.
        Target(
            "rpi5",
            "aarch64-linux-gnu",
            "cortex-a76",
            (),
            128,
            32,
            64 * _KB,
            512 * _KB,
            2 * _MB,
            64,
            11,
            35,
            260,
        ),
        # Arm Neoverse V1 TRM; 1 MB L2 a core, 32 MB shared. Kernels use 128-bit NEON, four a cycle.
        Target(
            "graviton3",
            "aarch64-linux-gnu",
            "neoverse-v1",
            (),
            128,
            32,
            64 * _KB,
            _MB,
            32 * _MB,
            64,
            13,
            80,
            260,
        ),
        # IBM Power E1080 technical overview: 2 MB L2 an SMT8 core, 8 MB of L3 nearby; 64 VSX registers. The
        # accumulators of the matrix unit are the first 32 of these.
        Target(
            "power10", "powerpc64le-linux-gnu", "pwr10", (), 128, 64, 32 * _KB, _MB, 8 * _MB, 128, 14, 28, 320
        ),
        # Qualcomm Hexagon Programmer's Reference Manuals: 32 scalar registers of 32 bits, as vectors of
        # 128 bits 8. HVX (32 registers of 1024 bits) has no plain fp32, which is all that kernels use yet.
        Target(
            "hexagon-v66",
            "hexagon-unknown-linux-musl",
            "hexagonv66",
            (),
            128,
            8,
            32 * _KB,
            _MB,
            0,
            64,
            10,
            0,
            150,
        ),
        Target(
            "hexagon-v68",
            "hexagon-unknown-linux-musl",
            "hexagonv68",
            (),
            128,
            8,
            32 * _KB,
            _MB,
            0,
            64,
            10,
            0,
            150,
        ),
    )
}
