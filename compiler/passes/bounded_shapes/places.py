"""The places of the true elements of a line, and their count."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from compiler.passes.bounded_shapes.state import AXES_AS_INPUTS, WHOLE_EXTREMES, Size, State

FAR = 1 << 62
"""Beyond all places."""


def compacted(state: State, truths: str) -> str:
    """The places of a line that are true, as many as it has room for: what is left over is 0."""
    (extent,) = state.info(truths).shape
    found = state.add("NonZero", [truths], room=(1, extent))
    line = state.add("Reshape", [found, state.constant(np.array([extent]))])
    return not_below(state, line)


def not_below(state: State, name: str, output: str = "") -> str:
    """Zeros in the place of what is negative, as ``output``; its name."""
    zero = state.constant(np.array(0))
    operands = [state.add("Less", [name, zero]), zero, name]
    if not output:
        return state.add("Where", operands)
    state.write("Where", operands, [output])
    return output


def within(state: State, name: str, extent: int) -> str:
    """The places ``name``, whole numbers, and never beyond the first or the last of ``extent``."""
    for op, end in (("Max", 0), ("Min", extent - 1)):
        limit = state.constant(np.array([end], np.int64))
        if state.opset >= WHOLE_EXTREMES:
            name = state.add(op, [name, limit])
        else:
            beyond = state.add("Less", [name, limit] if op == "Max" else [limit, name])
            name = state.add("Where", [beyond, limit, name])
    return name


def above_zero(state: State, name: str) -> str:
    """The whole numbers ``name``, and one for those below: something may be divided by them."""
    one = state.constant(np.array([1], np.int64))
    return state.add("Where", [state.add("Less", [name, one]), one, name])


def from_the_start(state: State, name: str, size: Size, extent: int, column: int | None = None) -> str:
    """The places ``name`` along an axis of ``size`` with room for ``extent``, counted from its start where
    they count from its end; those in a ``column`` of the last axis where that has a place along several axes.

    A place that does not count is one that there is no room for: whoever reads by it ends the run.
    """
    known = state.constants.get(name)
    if known is None:
        least, most = state.limits.of(name)
        low, high = least.min(), most.max()
    else:
        low, high = known.min(initial=0), known.max(initial=-1)
    if low >= 0 and high < size.low:
        return name
    info = state.info(name)

    def line(value: str | int, elsewhere: int) -> str:
        """One number, or one for each column; those of other columns are ``elsewhere``."""
        number = value if isinstance(value, str) else state.constant(np.array([value], np.int64))
        if column is not None:
            mine = state.constant(np.arange(info.shape[-1]) == column)
            number = state.add("Where", [mine, number, state.constant(np.array([elsewhere], np.int64))])
        if info.dtype != "int64":
            number = state.add("Cast", [number], to=info.elem_type)
        return (
            number if info.shape else state.add("Reshape", [number, state.constant(np.array([], np.int64))])
        )

    zero = state.constant(np.array(0, info.dtype))
    count, made = state.count(size), name
    if low < 0:
        below = state.add("Less", [name, zero])
        made = state.add("Where", [below, state.add("Add", [name, line(count, 0)]), name])
    there = state.add("Less", [made, line(count, FAR)])
    if low < 0:
        there = state.add("And", [there, state.add("Not", [state.add("Less", [made, line(0, -FAR)])])])
    made = state.add("Where", [there, made, line(extent + 1, 0)])
    state.axes[made] = dict(state.axes_of(name))
    return made


def how_many(state: State, truths: str) -> str:
    """How many are true, int64 of one element."""
    numbers = state.add("Cast", [truths], to=TensorProto.INT64)
    return reduce_sum(state, state.add("Reshape", [numbers, state.constant(np.array([-1]))]), [0], 1)


def reduce_sum(state: State, name: str, axes: Sequence[int], keep: int) -> str:
    """Sums of ``name`` along ``axes``."""
    if state.opset >= AXES_AS_INPUTS:
        return state.add("ReduceSum", [name, state.constant(np.array([*axes]))], keepdims=keep)
    return state.add("ReduceSum", [name], axes=[*axes], keepdims=keep)
