"""Products of arrays: rows of the one, columns of the other, and sums of what counts."""

from __future__ import annotations

from onnx import NodeProto

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.state import ALONG, APART, Axes, Fill, State, exactly


def product(state: State, node: NodeProto) -> Axes:
    """MatMul, MatMulInteger and Gemm; the rest of what is added up is made zeros."""
    left, right = (len(state.info(name).shape) for name in node.input[:2])
    if min(left, right) < 2 or any(map(state.axes_of, node.input[2:])):
        state.refuse(ALONG)
    attributes, inputs = attributes_of(node), {}
    turned = [bool(attributes.get(name, 0)) for name in ("transA", "transB")]
    rows, depth = left - 2 + turned[0], left - 1 - turned[0]
    inner, columns = right - 2 + turned[1], right - 1 - turned[1]
    ours, theirs = (state.axes_of(name) for name in node.input[:2])
    if depth in ours or inner in theirs:
        extents = state.info(node.input[0]).shape[depth], state.info(node.input[1]).shape[inner]
        if ours.get(depth, exactly(extents[0])) != theirs.get(inner, exactly(extents[1])):
            state.refuse(APART)
        whole = node.op_type == "MatMulInteger"
        for place, axis in ((0, depth), (1, inner)):
            zero: Fill = zero_of(state, node, place + 2) if whole else 0
            inputs[place] = state.masked(node.input[place], zero, [axis])
    state.like(node, inputs)
    rank = max(left, right)
    found: Axes = {}
    for axes, own, kept, to in ((ours, left, rows, rank - 2), (theirs, right, columns, rank - 1)):
        for axis, size in axes.items():
            place = to if axis == kept else axis + rank - own
            if (axis < own - 2 or axis == kept) and found.setdefault(place, size) != size:
                state.refuse(APART)
    for name, own in zip(node.input, (left, right), strict=False):
        for place in found:
            axis = place - rank + own
            alike = axis in state.axes_of(name) or state.info(name).shape[axis] == 1
            if place < rank - 2 and axis >= 0 and not alike:
                state.refuse(APART)
    return found


def zero_of(state: State, node: NodeProto, place: int) -> Fill:
    """The zero point of bytes: a number, or the tensor that has it."""
    if place >= len(node.input) or not node.input[place]:
        return 0
    known = state.constants.get(node.input[place])
    if known is None:
        shape = state.info(node.input[place]).shape
        if shape not in ((), (1,)):
            state.refuse("has several computed zero points")
        return str(node.input[place])
    if known.size and (known != known.reshape(-1)[0]).any():
        state.refuse("has several zero points for an array with data-dependent lengths")
    return int(known.reshape(-1)[0])
