"""Scatters: what does not count is written to a place that is cut off again."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.places import from_the_start
from compiler.passes.bounded_shapes.state import ALONG, Axes, State, exactly


def scattered(state: State, node: NodeProto) -> Axes:
    """ScatterND, ScatterElements and Scatter."""
    data, indices, updates = node.input[:3]
    counted = dict(state.axes_of(data))
    shape, lie = state.info(data).shape, state.info(indices).shape
    nd = node.op_type == "ScatterND"
    axis = 0 if nd else attributes_of(node).get("axis", 0) % len(shape)
    if nd and len(lie) - 1 in state.axes_of(indices):
        state.refuse(ALONG)
    _agree(state, node, axis)
    depth = lie[-1] if nd else 1
    for at in range(depth):
        along = at if nd else axis
        if along in counted:
            column = at if nd and depth > 1 else None
            indices = from_the_start(state, indices, counted[along], shape[along], column)
    spare = list(state.axes_of(node.input[1]))
    if not spare:
        state.like(node, {1: indices})
        return counted
    # One more line, the last, is for what does not count.
    more = list(shape)
    more[axis] = 1
    line = state.constant(np.broadcast_to(np.zeros((), state.info(data).dtype), more).copy())
    room = state.add("Concat", [data, line], axis=axis)
    lost = np.zeros(depth if nd else 1, np.int64)
    lost[0] = shape[axis]
    nowhere = state.constant(
        lost.astype(state.info(indices).dtype) if nd else lost.astype(state.info(indices).dtype)[0]
    )
    for at in spare:
        there = state.there(state.axes_of(node.input[1])[at], at, lie)
        indices = state.add("Where", [there, indices, nowhere])
    made = state.add(node.op_type, [room, indices, updates], **attributes_of(node))
    columns = [state.constant(np.array([each])) for each in (0, shape[axis], axis)]
    state.write("Slice", [made, *columns], node.output)
    return counted


def _agree(state: State, node: NodeProto, axis: int) -> None:
    """Refuse updates that are not as many as their places, or go along other axes that count."""
    data, indices, updates = node.input[:3]
    counted, lie = state.axes_of(data), state.info(indices).shape
    theirs, ours = state.axes_of(indices), dict(state.axes_of(updates))
    if node.op_type != "ScatterND":
        if theirs != ours:
            state.refuse("has other places than updates")
        return
    first = len(lie) - 1
    depth = lie[-1]
    wanted = theirs | {at - depth + first: size for at, size in counted.items() if at >= depth}
    shape = state.info(updates).shape
    for at in {*wanted, *ours}:
        if wanted.get(at, exactly(shape[at])) != ours.get(at, exactly(shape[at])):
            state.refuse("has other places than updates")
