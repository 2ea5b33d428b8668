"""Vectors of small integers times a constant scale."""

from __future__ import annotations

from kernels.emit.tir import const
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Vector
from kernels.emit.vectors import shuffle
from kernels.int8.hvx.instructions import WORDS, has_hvx
from kernels.int8.requantize import fixed_point_multiply
from kernels.target import Target

WIDTH = 8
"""Lanes that are multiplied at a time; HVX multiplies whole vectors only."""


def scaled(value: Vector, largest: int, multiplier: int, shift: int, lanes: int, target: Target) -> Vector:
    """``round(value * multiplier * 2^(-31 - shift))``, ties up, of int32 lanes of at most ``largest``.

    Results saturate at 2^30 at least.
    """
    # Shifted left as far as it makes the scale a small one, which takes fewest instructions.
    before = max(0, 2 - shift)
    how = "high" if largest << before < 1 << 31 else "exact"
    before = before if how == "high" else 0
    parts = max(1, lanes // (WORDS if has_hvx(target) else WIDTH))
    width = lanes // parts
    factor, total = const(multiplier, lanes=width), const(shift + before, lanes=width)
    multiply = fixed_point_multiply(factor, total, how, width)
    value = T.Bind(tirx.shift_left(T.Bind(value), const(before, lanes=lanes)))
    if parts == 1:
        return multiply(value)
    found = [multiply(shuffle([value], range(at, at + width))) for at in range(0, lanes, width)]
    return shuffle(found, range(lanes))
