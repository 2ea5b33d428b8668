"""Operators that compute along an axis: of what counts alone."""

from __future__ import annotations

from math import inf

import numpy as np
from onnx import NodeProto

from tuner.frontend.counted.sizes import sizes_of
from tuner.frontend.counted.state import ALONG, Axes, State
from tuner.frontend.onnx_graph import attributes_of

NEUTRAL = {"ReduceMax": -inf, "ReduceMin": inf, "ReduceSum": 0, "ReduceProd": 1, "ReduceL1": 0} | {
    "ReduceL2": 0,
    "ReduceSumSquare": 0,
    "ArgMax": -inf,
    "ArgMin": inf,
    "ReduceMean": 0,
}
"""What changes nothing, in the place of what does not count."""


def along(state: State, node: NodeProto) -> Axes:
    """What computes along one axis, of which all elements count (Softmax, CumSum, Split)."""
    rank = len(state.info(node.input[0]).shape)
    default = 0 if node.op_type == "Split" else -1
    axis = attributes_of(node).get("axis", default) % rank
    if node.op_type == "CumSum":
        # What comes before is what counts, unless it is added up from the end.
        if attributes_of(node).get("reverse", 0):
            state.refuse(ALONG)
        axis = -1
    axes = state.axes_of(node.input[0])
    if axis in axes:
        state.refuse(ALONG)
    state.keep(node)
    return dict(axes)


def reduced(state: State, node: NodeProto) -> Axes:
    """Reductions, of what counts alone: the rest is made what changes nothing."""
    rank, attributes = len(state.info(node.input[0]).shape), attributes_of(node)
    if node.op_type.startswith("Arg"):
        gone = [attributes.get("axis", 0)]
    else:
        given = attributes.get("axes") if len(node.input) < 2 else state.value(1, [])
        gone = [*range(rank)] if given is None or not len(given) else [int(axis) for axis in given]
        if attributes.get("noop_with_empty_axes") and len(gone) == rank and (given is None or not len(given)):
            gone = []
    gone = [axis % rank for axis in gone]
    axes = state.axes_of(node.input[0])
    hit = [axis for axis in axes if axis in gone]
    if hit and node.op_type not in NEUTRAL:
        state.refuse(ALONG)
    if not hit:
        state.keep(node)
    elif node.op_type == "ReduceMean":
        state.refuse(f"{ALONG}; write the mean as a sum over a number")
    else:
        state.like(node, {0: state.masked(node.input[0], NEUTRAL[node.op_type], hit)})
    keep = attributes.get("keepdims", 1)
    kept = [*range(rank)] if keep else [axis for axis in range(rank) if axis not in gone]
    return {kept.index(axis): size for axis, size in axes.items() if axis not in gone}


def largest(state: State, node: NodeProto) -> Axes:
    """TopK, of as many as data say or of what counts alone."""
    attributes, info = attributes_of(node), state.info(node.input[0])
    axis = attributes.get("axis", -1) % len(info.shape)
    axes, sizes = (
        state.axes_of(node.input[0]),
        sizes_of(state, node.input[1]) if len(node.input) > 1 else None,
    )
    if len(node.input) > 1 and sizes is None:
        state.refuse("has a number of results that data decide")
    fill = -inf if attributes.get("largest", 1) else inf
    inputs = {0: state.masked(node.input[0], fill, [axis])} if axis in axes else {}
    found = {at: size for at, size in axes.items() if at != axis}
    if sizes is not None:
        (size,) = sizes.reshape(-1)
        inputs[1] = state.constant(np.array([min(size.high, info.shape[axis])], np.int64))
        if not size.known:
            found[axis] = size
    state.like(node, inputs)
    return found
