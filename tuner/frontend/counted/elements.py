"""Operators of single elements, products and Concat."""

from __future__ import annotations

from onnx import NodeProto

from tuner.frontend.counted.places import compacted
from tuner.frontend.counted.state import ALONG, APART, Axes, Size, State, exactly
from tuner.frontend.onnx_graph import attributes_of


def each_element(state: State, node: NodeProto) -> Axes:
    """Operators of single elements, with broadcasting."""
    names = [name for name in node.input if name]
    rank = max(len(state.info(name).shape) for name in names)
    found: Axes = {}
    for name in names:
        shape, axes = state.info(name).shape, state.axes_of(name)
        for axis, extent in enumerate(shape):
            at = axis + rank - len(shape)
            size = axes.get(axis)
            if size is None and extent != 1:
                size = exactly(extent)
            if size is not None and found.setdefault(at, size) != size:
                state.refuse(APART)
    state.keep(node)
    return {axis: size for axis, size in found.items() if not size.known}


def product(state: State, node: NodeProto) -> Axes:
    """MatMul and Gemm: rows of the left operand, columns of the right one."""
    left, right = (state.info(name).shape for name in node.input[:2])
    attributes = attributes_of(node)
    if len(left) != 2 or len(right) != 2:
        rows, columns = len(left) - 2, len(right) - 1
        batched = [axis for axis in state.axes_of(node.input[0]) if axis < rows]
        if batched or set(state.axes_of(node.input[1])) - {columns} or min(len(left), len(right)) < 2:
            state.refuse(ALONG)
    else:
        rows = 1 if attributes.get("transA") else 0
        columns = 0 if attributes.get("transB") else 1
    ours, theirs = state.axes_of(node.input[0]), state.axes_of(node.input[1])
    if set(ours) - {rows} or set(theirs) - {columns} or any(map(state.axes_of, node.input[2:])):
        state.refuse(ALONG)
    state.keep(node)
    rank = max(len(left), len(right))
    found = {rank - 2: ours[rows]} if rows in ours else {}
    return found | ({rank - 1: theirs[columns]} if columns in theirs else {})


def concat(state: State, node: NodeProto) -> Axes:
    """Concat: along what counts, the parts that do are put together."""
    names = list(node.input)
    rank = len(state.info(names[0]).shape)
    axis = attributes_of(node)["axis"] % rank
    around: Axes = {}
    for name in names:
        for at, size in state.axes_of(name).items():
            if at != axis and around.setdefault(at, size) != size:
                state.refuse(APART)
    parts = [state.axes_of(n).get(axis, exactly(state.info(n).shape[axis])) for n in names]
    if all(part.known for part in parts):
        state.keep(node)
        return around
    total = Size(sum(part.low for part in parts), sum(part.high for part in parts))
    counts = [state.count(part) for part in parts]
    while len(counts) > 1:
        counts[:2] = [state.add("Add", counts[:2])]
    total = Size(total.low, total.high, counts[0])
    if all(part.known for part in parts[:-1]):
        state.keep(node)
        return around | {axis: total}
    there = [state.inside(part, state.info(n).shape[axis]) for n, part in zip(names, parts, strict=True)]
    whole = state.add("Concat", names, axis=axis)
    places = compacted(state, state.add("Concat", there, axis=0))
    state.write("Gather", [whole, places], node.output, axis=axis)
    return around | {axis: total}
