"""Operators that put elements elsewhere: rows stay rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import NodeProto

from compiler.ir.checks import ModelError
from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.derived import wanted
from compiler.passes.bounded_shapes.places import from_the_start
from compiler.passes.bounded_shapes.regroup import regrouped
from compiler.passes.bounded_shapes.sizes import advise, needed
from compiler.passes.bounded_shapes.state import ALONG, Axes, State


def transpose(state: State, node: NodeProto) -> Axes:
    """Axes in another order."""
    rank = len(state.info(node.input[0]).shape)
    order = attributes_of(node).get("perm", [*range(rank)][::-1])
    axes = state.axes_of(node.input[0])
    state.keep(node)
    keep_fill(state, node)
    return {to: axes[axis] for to, axis in enumerate(order) if axis in axes}


def keep_fill(state: State, node: NodeProto) -> None:
    """What does not count in the operand of ``node`` does not in its result."""
    if node.input[0] in state.fills:
        state.fills[node.output[0]] = state.fills[node.input[0]]


def reshape(state: State, node: NodeProto) -> Axes:
    """Reshape: rows stay rows, or become as many times as many; else each element is moved by itself."""
    made = NodeProto()
    made.CopyFrom(node)
    if node.op_type == "Reshape" and state.value(1) is None:
        made.input[1] = greatest(state, node.input[1])
    shape, counted = state.info(node.input[0]).shape, state.axes_of(node.input[0])
    try:
        out = state.shape_of(made)
    except ModelError:
        # The greatest sizes need not go together as those that count do.
        return regrouped(state, node)
    places = {axis: _place(shape, out, axis) for axis in counted}
    if None in places.values():
        return regrouped(state, node)
    state.like(made, {})
    keep_fill(state, node)
    found: Axes = {}
    for axis, at in places.items():
        assert at is not None
        size, factor = counted[axis], out[at] // shape[axis]
        found[at] = size if factor == 1 else wanted(state, lambda number, by=factor: number * by, size)
    return found


def _place(shape: Sequence[int], out: Sequence[int], axis: int) -> int | None:
    """The axis of ``out`` along which ``axis`` goes on: nothing but what lies within it is part of that."""
    before, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    fitting = [at for at in range(len(out)) if prod(out[:at]) == before]
    same = [at for at in fitting if out[at] == shape[axis]]
    if same:
        return same[-1] if shape[axis] != 1 else same[0]
    merged = [at for at in fitting if out[at] % shape[axis] == 0 and inner % (out[at] // shape[axis]) == 0]
    return merged[0] if merged else None


def greatest(state: State, name: str) -> str:
    """A shape with the greatest that data may make of it, as a constant."""
    sizes = needed(state, name).reshape(-1)
    return state.constant(np.array([size.high for size in sizes], np.int64))


def squeeze(state: State, node: NodeProto) -> Axes:
    """Squeeze and Unsqueeze."""
    state.keep(node)
    keep_fill(state, node)
    source, out = state.info(node.input[0]).shape, state.info(node.output[0]).shape
    axes = state.axes_of(node.input[0])
    moved = attributes_of(node).get("axes") if len(node.input) < 2 else state.value(1)
    if node.op_type == "Squeeze":
        gone = [axis for axis, extent in enumerate(source) if extent == 1] if moved is None else moved
        gone = {int(axis) % len(source) for axis in gone}
        if gone & axes.keys():
            state.refuse(ALONG)
        kept = [axis for axis in range(len(source)) if axis not in gone]
        return {kept.index(axis): size for axis, size in axes.items()}
    new = {int(axis) % len(out) for axis in ([] if moved is None else moved)}
    kept = [axis for axis in range(len(out)) if axis not in new]
    return {kept[axis]: size for axis, size in axes.items()}


def gather(state: State, node: NodeProto) -> Axes:
    """Gather: places along an axis, in the shape of the indices."""
    data, indices = node.input[:2]
    rank, many = len(state.info(data).shape), len(state.info(indices).shape)
    axis = attributes_of(node).get("axis", 0) % rank
    if axis in state.axes_of(data):
        indices = from_the_start(state, indices, state.axes_of(data)[axis], state.info(data).shape[axis])
    _keep_masked(state, node, indices)
    found = {at + axis: size for at, size in state.axes_of(indices).items()}
    for at, size in state.axes_of(data).items():
        if at != axis:
            found[at if at < axis else at + many - 1] = size
    return found


def gather_nd(state: State, node: NodeProto) -> Axes:
    """GatherND: a row of the indices is a place."""
    data, indices = node.input[:2]
    batch, depth = attributes_of(node).get("batch_dims", 0), state.info(indices).shape[-1]
    many = len(state.info(indices).shape)
    if many - 1 in state.axes_of(indices):
        state.refuse(ALONG)
    for at, size in state.axes_of(data).items():
        if batch <= at < batch + depth:
            extent = state.info(data).shape[at]
            indices = from_the_start(state, indices, size, extent, at - batch if depth > 1 else None)
    _keep_masked(state, node, indices)
    found = dict(state.axes_of(indices))
    for at, size in state.axes_of(data).items():
        if at >= batch + depth:
            found[at - batch - depth + many - 1] = size
    return found


def gather_elements(state: State, node: NodeProto) -> Axes:
    """GatherElements: a place for each result."""
    data, indices = node.input[:2]
    axis = attributes_of(node).get("axis", 0) % len(state.info(data).shape)
    if axis in state.axes_of(data):
        indices = from_the_start(state, indices, state.axes_of(data)[axis], state.info(data).shape[axis])
    _keep_masked(state, node, indices)
    return dict(state.axes_of(node.input[1]))


def _keep_masked(state: State, node: NodeProto, indices: str) -> None:
    """Keep ``node`` with indices 0 where they do not count: nobody may be blamed for what is left over."""
    state.like(
        node, {1: state.masked(indices, 0)} if indices != node.input[1] or state.axes_of(indices) else {}
    )


def tile(state: State, node: NodeProto) -> Axes:
    """Tile along axes with elements that all count."""
    axes, repeats = state.axes_of(node.input[0]), state.value(1)
    if repeats is None or any(int(repeats[axis]) != 1 for axis in axes):
        advise(state, node.input[1])
        state.refuse("repeats rows with a data-dependent count")
    state.keep(node)
    return dict(axes)
