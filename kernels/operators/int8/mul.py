"""The product of two quantized tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.emit.tir import const, convert
from kernels.emit.types import Vector
from kernels.int8.reference import fixed_point, multiply
from kernels.operators.int8.base import Array
from kernels.operators.int8.pairs import QPair
from kernels.operators.int8.scale import scaled
from kernels.target import Target

LARGEST = 255 * 255
"""Of the products of two elements, less their zeros."""


@dataclass(frozen=True)
class QMul(QPair):
    """``clip(round((a - za) * (b - zb) * multiplier * 2^(-31 - shift)) + zo)``, ties up."""

    multiplier: int
    shift: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 <= self.multiplier < 1 << 31 and -31 <= self.shift <= 31):
            raise ValueError(
                "a quantized product has a multiplier of 31 bits and a shift from -31 to 31, "
                f"got {self.multiplier} and {self.shift}"
            )

    @staticmethod
    def factors(a: float, b: float, out: float) -> tuple[int, int]:
        """The multiplier and the shift."""
        multiplier, shift = (int(v.item()) for v in fixed_point(np.array([a * b / out])))
        return multiplier, shift

    def exactly(self, a: Array, b: Array) -> Array:
        """The scaled product."""
        return multiply(a * b, np.array(self.multiplier), np.array(self.shift))

    def vector(self, a: Vector, b: Vector, width: int, target: Target) -> Vector:
        """The scaled product and the zero point."""
        # Nine bits each: words, whose products take fewer instructions than those of int32.
        one, two = (
            convert(convert(operand, "int16", width) - const(zero, "int16", width), "int32", width)
            for operand, zero in zip((a, b), self.zeros[:2], strict=True)
        )
        value = scaled(one * two, LARGEST, self.multiplier, self.shift, width, target)
        return value + const(self.zeros[2], lanes=width)
