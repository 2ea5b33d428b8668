"""Vectors of small integers times a constant scale. TVM objects are Any."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels.qtir import const
from kernels.requantize import fixed_point_multiply
from kernels.vectors import shuffle

WIDTH = 8
"""Lanes that are multiplied at a time."""


def scaled(value: Any, largest: int, multiplier: int, shift: int, lanes: int) -> Any:
    """``round(value * multiplier * 2^(-31 - shift))``, ties up, of int32 lanes of at most ``largest``.

    Results saturate at 2^30 at least.
    """
    # Shifted left as far as it makes the scale a small one, which takes fewest instructions.
    before = max(0, 2 - shift)
    how = "high" if largest << before < 1 << 31 else "exact"
    before = before if how == "high" else 0
    parts = max(1, lanes // WIDTH)
    width = lanes // parts
    factor, total = const(multiplier, lanes=width), const(shift + before, lanes=width)
    multiply = fixed_point_multiply(factor, total, how, width)
    value = T.Bind(tirx.shift_left(T.Bind(value), const(before, lanes=lanes)))
    if parts == 1:
        return multiply(value)
    found = [multiply(shuffle([value], range(at, at + width))) for at in range(0, lanes, width)]
    return shuffle(found, range(lanes))
