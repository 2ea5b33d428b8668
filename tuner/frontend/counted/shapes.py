"""Shapes of what data decide the number of rows of, and what is made by them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from tuner.frontend.counted.moves import greatest
from tuner.frontend.counted.places import not_below
from tuner.frontend.counted.sizes import put, sizes_of
from tuner.frontend.counted.state import APART, Axes, Size, State, exactly
from tuner.frontend.onnx_graph import attributes_of


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
    counts = [state.count(size) for size in sizes]
    while len(counts) > 1:
        counts[:2] = [state.add("Mul", counts[:2])]
    state.write("Reshape", [counts[0], state.constant(np.array([], np.int64))], node.output)
    low, high = prod(size.low for size in sizes), prod(size.high for size in sizes)
    whole = np.empty((), object)
    whole[()] = Size(low, high, node.output[0])
    state.sizes[node.output[0]] = whole
    return {}


def _node(around: NodeProto, op: str, inputs: list[str], **attributes: Any) -> NodeProto:
    return helper.make_node(op, inputs, around.output, name=around.name, **attributes)


def expand(state: State, node: NodeProto) -> Axes:
    """Expand and ConstantOfShape by counts."""
    at = 1 if node.op_type == "Expand" else 0
    sizes = sizes_of(state, node.input[at])
    state.like(node, {at: greatest(state, node.input[at])})
    out = state.info(node.output[0]).shape
    found: Axes = {}
    if at:
        shape = state.info(node.input[0]).shape
        found = {axis + len(out) - len(shape): size for axis, size in state.axes_of(node.input[0]).items()}
    assert sizes is not None
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
    return Size(0, max(0, size.high), not_below(state, state.count(size)))


def range_(state: State, node: NodeProto) -> Axes:
    """Range from a known start up to a count, in ones."""
    start, step, limit = state.value(0), state.value(2), sizes_of(state, node.input[1])
    if start is None or step is None or limit is None or int(step) != 1:
        state.refuse("has a start or a step that data decide")
    (size,) = limit.reshape(-1)
    first, dtype = int(start), state.info(node.input[1]).dtype
    high = max(0, size.high - first)
    state.make_constant(node.output[0], np.arange(first, first + high).astype(dtype))
    if size.known:
        return {}
    if first == 0 and size.low >= 0:
        return {0: size}
    less = state.add("Sub", [state.count(size), state.constant(np.array([first]))])
    return {0: _not_below(state, Size(size.low - first, high, less))}
