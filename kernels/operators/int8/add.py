"""The sum of two quantized tensors, in int32."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernels.emit.tir import const, convert
from kernels.emit.tvm import tirx
from kernels.emit.types import Vector
from kernels.operators.int8.base import Array
from kernels.operators.int8.pairs import QPair
from kernels.target import Target

MULTIPLIER_BITS = 21
"""Of the larger multiplier: two products of 9 bits by 21 and what rounds them fit int32."""
MOST_SHIFT = 30


@dataclass(frozen=True)
class QAdd(QPair):
    """``clip((((a - za) * ma + (b - zb) * mb + 2^(shift - 1)) >> shift) + zo)``, ties up, all in int32.

    Raises ValueError for what does not fit int32.
    """

    multipliers: tuple[int, int]
    shift: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 <= multiplier < 1 << MULTIPLIER_BITS for multiplier in self.multipliers):
            raise ValueError(
                f"multipliers of a quantized sum are below 2^{MULTIPLIER_BITS}, got {self.multipliers}"
            )
        if not 1 <= self.shift <= MOST_SHIFT:
            raise ValueError(f"the shift of a quantized sum is from 1 to {MOST_SHIFT}, got {self.shift}")

    @staticmethod
    def factors(a: float, b: float, out: float) -> tuple[tuple[int, int], int]:
        """The multipliers and the shift."""
        ratios = a / out, b / out
        shift = min(MULTIPLIER_BITS - math.frexp(max(ratios))[1], MOST_SHIFT)
        most = (1 << MULTIPLIER_BITS) - 1
        first, second = (min(math.floor(math.ldexp(ratio, shift) + 0.5), most) for ratio in ratios)
        return (first, second), shift

    def exactly(self, a: Array, b: Array) -> Array:
        """The scaled sum."""
        total: Array = a * self.multipliers[0] + b * self.multipliers[1] + (1 << (self.shift - 1))
        return total >> self.shift

    def vector(self, a: Vector, b: Vector, width: int, target: Target) -> Vector:
        """The scaled sum and the zero point."""
        # All that does not depend on the data in one constant. It fits, and so does what is added to it in
        # turn: both are within two products of 9 bits by 21 and half a quantum.
        before = (1 << (self.shift - 1)) - sum(
            zero * multiplier for zero, multiplier in zip(self.zeros[:2], self.multipliers, strict=True)
        )
        after = self.zeros[2]
        if sum(self.multipliers) * 255 + (1 << self.shift) + (abs(after) << self.shift) < 1 << 31:
            before, after = before + (after << self.shift), 0
        value = const(before, lanes=width)
        for operand, multiplier in zip((a, b), self.multipliers, strict=True):
            value = value + convert(operand, "int32", width) * const(multiplier, lanes=width)
        value = tirx.shift_right(value, const(self.shift, lanes=width))
        return value + const(after, lanes=width) if after else value
