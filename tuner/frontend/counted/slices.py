"""Slice by constants of what counts, and up to an end that data decide."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from tuner.frontend.counted.sizes import sizes_of
from tuner.frontend.counted.state import Axes, Size, State
from tuner.frontend.onnx_graph import attributes_of

LAST = 2**31 - 1
"""An end at least as great is that of the axis."""


def part(state: State, node: NodeProto) -> Axes:
    """Slice: of an axis along which data decide how many count, or to an end that data decide, rows from a
    known one on."""
    shape, given = state.info(node.input[0]).shape, attributes_of(node)
    starts, ends, axes, steps = (_operand(state, node, place, given) for place in range(4))
    if starts is None or axes is None or steps is None:
        state.refuse("has a start or a step that data decide")
    if ends is None:
        ends_of: list[Size | None] = [None] * len(starts)
    else:
        ends_of = [*ends]
    found = dict(state.axes_of(node.input[0]))
    cuts = []
    for at, (start, end, along, step) in enumerate(zip(starts, ends_of, axes, steps, strict=True)):
        axis = along.low % len(shape)
        counted = found.get(axis)
        if counted is None and end is not None and end.known and start.known:
            cuts.append((start.low, end.low, axis, step.low))
            continue
        if not start.known or start.low < 0 or step.low != 1:
            state.refuse(
                "has a start or a step that data decide, or takes rows from the end of some of which "
                "data decide the number"
            )
        size = _rest(state, counted or Size(shape[axis], shape[axis]), start.low, end, node, at)
        cuts.append((start.low, start.low + size.high, axis, 1))
        found[axis] = size
    columns = [state.constant(np.array(column, np.int64)) for column in zip(*cuts, strict=True)]
    state.write("Slice", [node.input[0], *columns], node.output)
    return {axis: size for axis, size in found.items() if not size.known}


def _rest(state: State, size: Size, start: int, end: Size | None, node: NodeProto, at: int) -> Size:
    """How many are left of ``size`` from ``start`` on to ``end``, or to the number ``at`` of the ends."""
    name, low, high = state.count(size), size.low, size.high
    if end is None or not end.known or end.low < LAST:
        if end is None:
            limits = state.add("Reshape", [node.input[2], state.constant(np.array([-1]))])
            limit = state.add("Gather", [limits, state.constant(np.array([at]))])
            end = Size(-LAST, LAST)
        else:
            limit = state.count(end)
        if end.low < 0:
            below = state.add("Less", [limit, state.constant(np.array([0]))])
            limit = state.add("Where", [below, state.add("Add", [limit, name]), limit])
            ends = (0, high)
        else:
            ends = (end.low, end.high)
        name = state.add("Where", [state.add("Less", [limit, name]), limit, name])
        low, high = min(low, ends[0]), min(high, ends[1])
    if start:
        name = state.add("Sub", [name, state.constant(np.array([start]))])
    zero = state.constant(np.array([0]))
    name = state.add("Where", [state.add("Less", [name, zero]), zero, name])
    return Size(max(0, low - start), max(0, high - start), name)


def _operand(state: State, node: NodeProto, place: int, given: dict[str, list[int]]) -> list[Size] | None:
    """Starts, ends, axes or steps; None where data decide them."""
    word = ("starts", "ends", "axes", "steps")[place]
    if word in given:
        return [Size(number, number) for number in given[word]]
    if len(node.input) > place + 1 and node.input[place + 1]:
        sizes = sizes_of(state, node.input[place + 1])
        return None if sizes is None else [*sizes.reshape(-1)]
    starts = given.get("starts")
    count = len(starts) if starts is not None else state.info(node.input[1]).shape[0]
    return [Size(at, at) if place == 2 else Size(1, 1) for at in range(count)]
