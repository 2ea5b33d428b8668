"""What an instruction set says of itself, so that nobody else looks into a triple."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Isa:
    """One instruction set: all targets whose triple begins with one of ``prefixes``.

    ``vectors`` is what data sheets call vectors of so many bits. ``features`` are LLVM's that code for it is
    always built with. ``spec`` is what TVM is told beside that, by the bits of a vector. ``known`` are the
    features that kernels know how to use, None for whatever a target has. ``rounds_floats`` says whether it
    has instructions for square roots and for rounding floats to whole numbers, ``chooses_bounds`` whether a
    bound is best kept by a comparison and a choice, of which a NaN comes out: Arm has an instruction for
    LLVM's ``maximum``, and on Hexagon LLVM takes the choice for an instruction that loses the NaN.
    ``broadcasts`` are how many neighbours one load brings that multiply whole vectors each.
    """

    name: str
    prefixes: tuple[str, ...]
    vectors: Callable[[int], str]
    features: tuple[str, ...] = ()
    spec: Callable[[int], Mapping[str, Any]] = lambda _: {}
    known: frozenset[str] | None = None
    rounds_floats: bool = True
    chooses_bounds: bool = True
    broadcasts: int = 1
