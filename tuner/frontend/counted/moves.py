"""Operators that put elements elsewhere: rows stay rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import NodeProto

from tuner.frontend.counted.sizes import sizes_of
from tuner.frontend.counted.state import ALONG, Axes, Size, State
from tuner.frontend.onnx_graph import attributes_of


def transpose(state: State, node: NodeProto) -> Axes:
    """Axes in another order."""
    rank = len(state.info(node.input[0]).shape)
    order = attributes_of(node).get("perm", [*range(rank)][::-1])
    axes = state.axes_of(node.input[0])
    state.keep(node)
    return {to: axes[axis] for to, axis in enumerate(order) if axis in axes}


def reshape(state: State, node: NodeProto) -> Axes:
    """Reshape: rows stay rows, or become as many times as many."""
    source = node.input[0]
    if node.op_type == "Reshape" and state.value(1) is None:
        state.like(node, {1: greatest(state, node.input[1])})
    else:
        state.keep(node)
    shape, out = state.info(source).shape, state.info(node.output[0]).shape
    return reshape_axes(state, shape, out, state.axes_of(source))


def reshape_axes(state: State, shape: Sequence[int], out: Sequence[int], axes: Axes) -> Axes:
    """Those that ``axes`` of an array of ``shape`` become when that has the shape ``out``."""
    found: Axes = {}
    for axis, size in axes.items():
        at = _place(shape, out, axis)
        if at is None:
            state.refuse("puts rows, of which data decide the number, beside others")
        found[at] = size if out[at] == shape[axis] else _times(state, size, out[at] // shape[axis])
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


def _times(state: State, size: Size, factor: int) -> Size:
    name = state.add("Mul", [state.count(size), state.constant(np.array([factor]))])
    return Size(size.low * factor, size.high * factor, name)


def greatest(state: State, name: str) -> str:
    """A shape with the greatest that data may make of it, as a constant."""
    sizes = sizes_of(state, name)
    if sizes is None:
        state.refuse("makes a shape of data, not of how many there are")
    return state.constant(np.array([size.high for size in sizes.reshape(-1)], np.int64))


def flatten(state: State, node: NodeProto) -> Axes:
    """Flatten, Squeeze and Unsqueeze."""
    state.keep(node)
    source, out = state.info(node.input[0]).shape, state.info(node.output[0]).shape
    axes = state.axes_of(node.input[0])
    if node.op_type == "Flatten":
        return reshape_axes(state, source, out, axes)
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
    known = state.value(1)
    if axis in state.axes_of(data) and known is not None and known.min(initial=0) < 0:
        state.refuse("counts from the end of rows of which data decide the number")
    _keep_masked(state, node)
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
    _keep_masked(state, node)
    found = dict(state.axes_of(indices))
    for at, size in state.axes_of(data).items():
        if at >= batch + depth:
            found[at - batch - depth + many - 1] = size
    return found


def gather_elements(state: State, node: NodeProto) -> Axes:
    """GatherElements: a place for each result."""
    _keep_masked(state, node)
    return dict(state.axes_of(node.input[1]))


def _keep_masked(state: State, node: NodeProto) -> None:
    """Keep ``node``, whose indices that do not count are 0: nobody may be blamed for what is left over."""
    indices = node.input[1]
    state.like(node, {1: state.masked(indices, 0)} if state.axes_of(indices) else {})


def tile(state: State, node: NodeProto) -> Axes:
    """Tile along axes of which all elements count."""
    axes, repeats = state.axes_of(node.input[0]), state.value(1)
    if repeats is None or any(int(repeats[axis]) != 1 for axis in axes):
        state.refuse("repeats rows of which data decide the number")
    state.keep(node)
    return dict(axes)
