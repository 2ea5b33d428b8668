"""How POWER10 and Hexagon multiply and add 8-bit numbers: four bytes, or two int16, into each 32-bit lane."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernels.emit.tir import of_type, reinterpret
from kernels.emit.tvm import tirx
from kernels.emit.types import Vector
from kernels.int8.x86.instructions import Multiply, multiplied_range
from kernels.isa.base import Isa
from kernels.isa.hexagon import HEXAGON
from kernels.isa.power import POWER
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d


@dataclass(frozen=True)
class Dots(Multiply):
    """A way of ``isa`` by LLVM's ``intrinsic``, which takes the sums first or last."""

    isa: Isa | None = None
    intrinsic: str = ""
    sums_first: bool = False

    def why_not(self, conv: QConv2d, target: Target) -> str | None:
        """Why this is no way to compute ``conv`` exactly on ``target``, or None when it is."""
        if target.isa is not self.isa:
            return f"{target.name} has no {self.name}"
        low, high = multiplied_range(conv)
        if self.packed == "int8" and not -128 <= low <= high <= 127:
            return f"weights from {low} to {high} do not fit int8"
        return None

    def add(self, total: Vector, data: Vector, weights: Vector, bits: int) -> Vector:
        """``total`` (int32 lanes) plus the products of one unit of data (in every lane) and of weights."""
        lanes = bits // 32
        if self.sums_first:
            words = reinterpret(data, "int32", lanes), reinterpret(weights, "int32", lanes)
            return _call(self.intrinsic, lanes, total, *words)
        data = reinterpret(data, self.data, self.unit * lanes)
        return _call(self.intrinsic, lanes, weights, data, total)


def _call(name: str, lanes: int, *values: Vector) -> Vector:
    return tirx.call_llvm_pure_intrin(of_type("int32", lanes), name, *values)


WAYS: Mapping[str, Multiply] = {
    way.name: way
    for way in (
        # The first 32 of Power's 64 registers are for floats and the matrix unit.
        Dots("vmsum", 4, "uint8", "int8", 0.25, 32, POWER, "llvm.ppc.altivec.vmsummbm"),
        Dots("vmsum_words", 2, "int16", "int16", 0.25, 32, POWER, "llvm.ppc.altivec.vmsumshm"),
        Dots("vrmpy", 4, "uint8", "int8", 0.5, 32, HEXAGON, "llvm.hexagon.V6.vrmpybusv.acc.128B", True),
        Dots("vdmpy", 2, "int16", "int16", 0.5, 32, HEXAGON, "llvm.hexagon.V6.vdmpyhvsat.acc.128B", True),
    )
}
HVX_BITS = 1024
"""The vectors that these intrinsics are for."""


def why_not_dots(target: Target) -> str | None:
    """Why none of this works on ``target``, or None when something does."""
    if target.isa is HEXAGON and target.integer_vector_bits != HVX_BITS:
        return f"{target.name} has no HVX of {HVX_BITS} bits"
    return None if target.isa in (POWER, HEXAGON) else "for POWER10 and Hexagon"


def ways(conv: QConv2d, target: Target) -> list[Multiply]:
    """The best way to compute ``conv`` exactly on ``target``: four products an instruction, else two."""
    return [way for way in WAYS.values() if way.why_not(conv, target) is None][:1]
