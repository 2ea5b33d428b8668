"""Shapes of what data decide the number of rows of, and what is made by them."""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.checks import check_size
from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.derived import derived
from compiler.passes.bounded_shapes.moves import greatest
from compiler.passes.bounded_shapes.places import from_the_start, not_below
from compiler.passes.bounded_shapes.sizes import advise, needed, put
from compiler.passes.bounded_shapes.state import ALONG, APART, Axes, Size, State, exactly


def shape_of(state: State, node: NodeProto) -> Axes:
    """Shape and Size: the counts."""
    info, axes = state.info(node.input[0]), state.axes_of(node.input[0])
    sizes = [axes.get(axis, exactly(extent)) for axis, extent in enumerate(info.shape)]
    if node.op_type == "Shape":
        part = attributes_of(node)
        sizes = sizes[part.get("start", 0) : part.get("end")]
        names = [state.count(size) for size in sizes]
        made = np.empty(len(sizes), object)
        made[:] = sizes
        state.begin(node)
        written = _node(node, "Concat", names, axis=0) if len(names) > 1 else _node(node, "Identity", names)
        put(state, written, made)
        return {}
    size = derived(state, lambda *numbers: reduce(np.multiply, numbers), *sizes)
    counts = [state.count(size)] if size else [state.count(each) for each in sizes]
    while len(counts) > 1:
        counts[:2] = [state.add("Mul", counts[:2])]
    state.write("Reshape", [counts[0], state.constant(np.array([], np.int64))], node.output)
    low, high = prod(each.low for each in sizes), prod(each.high for each in sizes)
    whole = np.empty((), object)
    whole[()] = size or Size(low, high, node.output[0])
    state.sizes[node.output[0]] = whole
    return {}


def _node(around: NodeProto, op: str, inputs: list[str], **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, around.output, name=around.name, **attributes)


def expand(state: State, node: NodeProto) -> Axes:
    """Expand and ConstantOfShape by counts."""
    at = 1 if node.op_type == "Expand" else 0
    sizes = needed(state, node.input[at])
    state.like(node, {at: greatest(state, node.input[at])})
    out = state.info(node.output[0]).shape
    found: Axes = {}
    if at:
        shape = state.info(node.input[0]).shape
        found = {axis + len(out) - len(shape): size for axis, size in state.axes_of(node.input[0]).items()}
    for axis, size in enumerate(sizes.reshape(-1)):
        place = axis + len(out) - sizes.size
        if size.known and size.low == 1:
            continue
        if found.get(place, size) != size:
            state.refuse(APART)
        found[place] = size
    return {axis: _not_below(state, size) for axis, size in found.items() if not size.known}


def _not_below(state: State, size: Size) -> Size:
    """``size``, or 0 where data make it negative."""
    if size.low >= 0:
        return size
    found = derived(state, lambda number: np.maximum(0, number), size)
    return found or Size(0, max(0, size.high), not_below(state, state.count(size)))


def range_(state: State, node: NodeProto) -> Axes:
    """Range of whole numbers, from a start and by steps that are known, up to a number with a limit."""
    start, step = state.value(0), state.value(2)
    dtype = np.dtype(state.info(node.input[1]).dtype)
    if start is None or step is None or dtype.kind not in "iu" or int(step) == 0:
        advise(state, *node.input)
        state.refuse("has a start or a step that data decide, or is of floats to a limit that data decide")
    (limit,) = needed(state, node.input[1]).reshape(-1)
    first, by = int(start), int(step)
    size = derived(state, lambda number: np.maximum(0, -((first - number) // by)), limit)
    if size is None:
        state.refuse("has a limit that may be too many numbers")
    check_size(size.high * dtype.itemsize, "the result", [size.high])
    state.make_constant(node.output[0], (first + by * np.arange(size.high)).astype(dtype))
    return {} if size.known else {0: size}


def one_hot(state: State, node: NodeProto) -> Axes:
    """OneHot: a new axis of as many classes as there may be."""
    indices, depth = node.input[:2]
    if any(map(state.axes_of, node.input[1:])):
        state.refuse(ALONG)
    (size,) = needed(state, depth).reshape(-1)
    rank = len(state.info(indices).shape) + 1
    axis = attributes_of(node).get("axis", -1) % rank
    counted = state.axes_of(indices)
    if not size.known:
        indices = from_the_start(state, indices, size, size.high)
    state.like(node, {0: indices, 1: state.constant(np.array(size.high, np.int64))})
    found = {at if at < axis else at + 1: each for at, each in counted.items()}
    return found if size.known else found | {axis: size}
