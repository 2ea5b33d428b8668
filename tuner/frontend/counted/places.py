"""Which elements of a line of truths hold, and how many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from tuner.frontend.counted.state import AXES_AS_INPUTS, WHOLE_EXTREMES, Size, State


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


def from_the_start(state: State, name: str, size: Size, column: int | None = None) -> str:
    """The places ``name`` along an axis of ``size``, counted from its start where they count from its end;
    those in a ``column`` of the last axis where that has a place along several axes."""
    known = state.constants.get(name)
    low = state.limits.of(name)[0].min() if known is None else known.min(initial=0)
    if low >= 0:
        return name
    count = state.count(size)
    if column is not None:
        one = np.zeros(state.info(name).shape[-1], np.int64)
        one[column] = 1
        count = state.add("Mul", [count, state.constant(one)])
    if state.info(name).dtype != "int64":
        count = state.add("Cast", [count], to=state.info(name).elem_type)
    shape = state.info(name).shape
    if not shape:
        count = state.add("Reshape", [count, state.constant(np.array([], np.int64))])
    zero = state.constant(np.array(0, state.info(name).dtype))
    made = state.add("Where", [state.add("Less", [name, zero]), state.add("Add", [name, count]), name])
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
