"""Loops over axes, shared out to threads as one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from kernels.emit.tvm import T, tirx
from kernels.emit.types import Expr
from kernels.loops.body import Axis
from kernels.loops.expressions import dtype_of


def nest(axes: Sequence[Axis], threads: int, turn: Callable[[dict[Any, Expr]], None]) -> None:
    """``turn(values)`` for all values of the axes; with threads the loops are one, which these share."""

    def loops(left: Sequence[Axis], values: dict[Any, Expr]) -> None:
        if not left:
            turn(values)
            return
        dtype = dtype_of(left[0].variable)
        with T.serial(tirx.const(0, dtype), left[0].end) as index:
            loops(left[1:], {**values, left[0].variable: index})

    if threads == 1 or not axes:
        loops(axes, {})
        return
    dtype = dtype_of(axes[0].variable)
    total = reduce(operator.mul, (axis.end.astype(dtype) for axis in axes))
    with T.parallel(tirx.const(0, dtype), total) as index:
        values: dict[Any, Expr] = {}
        for axis in reversed(axes):
            extent = axis.end.astype(dtype)
            at = index if axis is axes[0] else tirx.floormod(index, extent)
            values[axis.variable] = T.Bind(
                at if dtype_of(axis.variable) == dtype else tirx.Cast(dtype_of(axis.variable), at)
            )
            index = tirx.floordiv(index, extent)
        turn(values)
