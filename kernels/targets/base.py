"""What code is generated for, and the machine facts that kernels need."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, ClassVar

from pydantic import ConfigDict

from kernels.isa.base import Isa
from kernels.isa.registry import isa_of, why_unknown
from kernels.workload.checked import STRICT_FIELDS, read, remembered


@dataclass(frozen=True)
class Target:
    """One kind of machine.

    ``features`` are instruction sets that kernels may use, as LLVM names them (``+dotprod``), whether or not
    ``cpu`` implies them. Sizes are in bytes; ``l3_bytes`` is 0 where there is none. ``*_cycles`` are the
    costs of loading one cache line from that level, as the slicing analysis (seed 003, equation 6) needs
    them. ``integer_vector_*`` are 0 where integers share the registers of floats. ``matrix`` names the matrix
    engine's instruction set (``mma`` of Power), empty where there is none. ``fast_bytes`` is memory beside
    the caches that code fills itself (Hexagon's VTCM), 0 where there is none. ``hz`` is the usual clock rate,
    0 where it is unknown. Neither of the two makes a machine another kind: one makes seconds of cycles, the
    other says which configs fit. Nor do the last ones, which only rank configs (``emit/machine.py``): vector
    multiply-adds a cycle, loads a cycle that are sustained while lines arrive from L2 as well, how many line
    loads a core and its prefetchers overlap, how many sequential streams these follow, instructions that
    begin in a cycle (0: no limit is known), cycles until a sum can be added to again, stores of a vector a
    cycle, and what a line of a stream costs from each level (0: its latency over ``misses_in_flight``).
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
    fast_bytes: int = 0
    hz: int = 0
    fmas_per_cycle: float = 2.0
    loads_per_cycle: float = 1.6
    misses_in_flight: float = 32.0
    streams: int = 32
    issue_width: float = 0.0
    fma_latency: float = 4.0
    stores_per_cycle: float = 1.0
    l2_stream_cycles: float = 0.0
    l3_stream_cycles: float = 0.0
    dram_stream_cycles: float = 0.0

    def lanes(self, dtype: str = "float32") -> int:
        """Elements of ``dtype`` in one vector register."""
        bits = self.vector_bits if dtype == "float32" else self.integer_vector_bits or self.vector_bits
        return bits // {"float32": 32, "int32": 32, "int8": 8, "uint8": 8}[dtype]

    def has(self, feature: str) -> bool:
        """Whether kernels may count on a feature, for example ``dotprod``."""
        known = self.isa.known
        return f"+{feature}" in self.features and (known is None or feature in known)

    @property
    def isa(self) -> Isa:
        """The instruction set of its triple."""
        return isa_of(self.triple)

    @property
    def instruction_sets(self) -> list[str]:
        """Its vectors, what they do beside fp32, its matrix engine: ``AVX-512``, ``VNNI``, ``AMX``."""
        named = [word for word, names in _WORDS.items() if any(f"+{name}" in self.features for name in names)]
        return [self.isa.vectors(self.vector_bits), *named, *([self.matrix.upper()] if self.matrix else [])]

    @property
    def tvm(self) -> dict[str, Any]:
        """What ``tvm.target.Target`` takes."""
        spec: dict[str, Any] = {"kind": "llvm", "mtriple": self.triple, "mcpu": self.cpu, "num-cores": 1}
        if features := [*self.features, *self.isa.features]:
            spec["mattr"] = features
        spec |= self.isa.spec(self.vector_bits)
        return spec

    @cached_property
    def key(self) -> str:
        """16 hex digits over everything that makes a kind of machine; two with the same key are one kind."""
        facts = _facts(self)
        for name in _NOT_IN_KEY:
            del facts[name]
        for name in _IN_KEY_IF_SET:
            if not facts[name]:
                del facts[name]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


_CODE = (
    *("triple", "cpu", "features", "vector_bits", "vector_registers", "integer_vector_bits"),
    *("integer_vector_registers", "matrix", "fast_bytes"),
)
"""Facts that decide what code runs at all."""
_RANKING = (
    *("fmas_per_cycle", "loads_per_cycle", "misses_in_flight", "streams", "issue_width", "fma_latency"),
    *("stores_per_cycle", "l2_stream_cycles", "l3_stream_cycles", "dram_stream_cycles"),
)
_NOT_IN_KEY = ("name", "hz", "fast_bytes", *_RANKING)
_IN_KEY_IF_SET = ("integer_vector_bits", "integer_vector_registers", "matrix")
"""Facts younger than the first records, whose keys still hold."""


_WORDS = {
    "VNNI": ("avx512vnni", "avxvnni"),
    "SVE": ("sve",),
    "BF16": ("avx512bf16", "bf16"),
    "FP16": ("avx512fp16", "fullfp16"),
    "DotProd": ("dotprod",),
    "I8MM": ("i8mm",),
    "AMX": ("amx-tile",),
}
"""What data sheets call features, by LLVM's names."""


_WORD = re.compile(r"[\w.+-]{1,200}", re.ASCII)
_MOST_BITS, _MOST = 1 << 16, 1 << 48
_LEAST: dict[str, float] = {
    "vector_registers": 8,
    "l1_bytes": 1,
    "line_bytes": 1,
    "streams": 1,
    "fmas_per_cycle": 1 / 1024,
    "loads_per_cycle": 1 / 1024,
    "misses_in_flight": 1 / 1024,
    "stores_per_cycle": 1 / 1024,
}
"""What kernels divide by, and fewer registers than they can work with; 0 for all else."""


def to_json(target: Target) -> dict[str, Any]:
    """The target as plain JSON values; ``from_json`` reads it back."""
    return {**_facts(target), "features": list(target.features)}


def same_code(one: Target, other: Target) -> bool:
    """Whether both run the same code: they differ in their names, sizes and speeds alone."""
    return all(getattr(one, name) == getattr(other, name) for name in _CODE)


def _facts(target: Target) -> dict[str, Any]:
    """Its fields by name: none is nested, so that ``asdict``, ten times as slow, is not needed."""
    return {name: getattr(target, name) for name in _names()}


@cache
def _names() -> tuple[str, ...]:
    return tuple(field.name for field in fields(Target))


@remembered
def from_json(value: dict[str, Any]) -> Target:
    """Read a target; raises ValueError that names what is wrong with it."""
    target = read(Target, value, "target")
    for name, words in (
        ("name", [target.name]),
        ("triple", [target.triple]),
        ("cpu", [target.cpu]),
        ("features", target.features),
        ("matrix", [target.matrix] if target.matrix else []),
    ):
        if wrong := next((word for word in words if not _WORD.fullmatch(word)), None):
            raise ValueError(
                f"target {name}: only letters, digits and . _ + - are allowed, got {wrong!r:.80}"
            )
    if why := why_unknown(target.triple):
        raise ValueError(f"target triple: {why}")
    for name, bits in (
        ("vector_bits", target.vector_bits),
        ("integer_vector_bits", target.integer_vector_bits or target.vector_bits),
    ):
        if not 32 <= bits <= _MOST_BITS or bits % 32:
            raise ValueError(f"target {name}: {bits} is no width of vectors")
    for name, number in _facts(target).items():
        least = _LEAST.get(name, 0)
        if isinstance(number, (int, float)) and not least <= number < _MOST:
            raise ValueError(f"target {name}: {number} is no size; it is from {least:g} to below 2^48")
    if 0 < target.integer_vector_registers < _LEAST["vector_registers"]:
        few = target.integer_vector_registers
        raise ValueError(f"target integer_vector_registers: {few} are too few; it is 0 or 8 and more")
    return target
