"""How a step of a recurrence multiplies its states by its weights: floats, or whole numbers as they lie.

Whole weights stay bytes in memory where they fit: reading them is what takes time. They become int16 as they
are read. Sums are of int32, and exact for up to 32 Ki states.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.x86.instructions import add_pairs, why_not_x86
from kernels.target import Target


@dataclass(frozen=True)
class Products:
    """``unit`` neighbouring states (``dtype``), in every lane, meet as many weights of a column."""

    dtype: str
    sums: str
    unit: int
    bits: int

    def splat(self, states: Buffer, at: Index, lanes: int) -> Vector:
        """The unit of states from ``at`` on, in each of ``lanes`` lanes."""
        if self.unit == 1:
            return tir.splat(tir.convert(states[at], self.sums, 1), lanes)
        return tir.splat(tir.reinterpret(states[tir.vector(at, self.unit)], "int32", 1), lanes)

    def add(self, total: Vector, states: Vector, weights: Buffer, at: Index, lanes: int) -> Vector:
        """``total`` and the products of ``states`` and the weights from ``at`` on."""
        read, count = weights[tir.vector(at, lanes * self.unit)], lanes * self.unit
        if self.unit == 1:
            return total + states * tir.convert(read, self.sums, lanes)
        states = tir.reinterpret(states, self.dtype, count)
        return total + add_pairs(states, tir.convert(read, self.dtype, count), self.bits)


def products_of(whole: bool, target: Target) -> Products:
    """The way for whole weights or for floats."""
    if not whole:
        return Products(tir.F32, tir.F32, 1, target.vector_bits)
    unit = 1 if why_not_x86(target) else 2
    return Products("int16", "int32", unit, target.vector_bits)
