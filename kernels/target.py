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
    )
}
