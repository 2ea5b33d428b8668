"""Operators that compute along an axis: of what counts alone."""

from __future__ import annotations

from math import inf, nan

import numpy as np
from onnx import NodeProto

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.lacking import behind, counted, none_lacks
from compiler.passes.bounded_shapes.norms import write_mean
from compiler.passes.bounded_shapes.sizes import needed
from compiler.passes.bounded_shapes.state import ALONG, Axes, State, exactly

NEUTRAL = {"ReduceMax": -inf, "ReduceMin": inf, "ReduceSum": 0, "ReduceProd": 1, "ReduceL1": 0} | {
    "ReduceL2": 0,
    "ReduceLogSum": 0,
    "ReduceLogSumExp": -inf,
    "ReduceSumSquare": 0,
    "ArgMax": -inf,
    "ArgMin": inf,
    "ReduceMean": 0,
}
"""What changes nothing, in the place of what does not count."""
ONE_AXIS = 13
"""The operator set since which a Softmax is along one axis."""


def split(state: State, node: NodeProto) -> Axes:
    """Split along an axis where all elements count."""
    rank = len(state.info(node.input[0]).shape)
    axes = state.axes_of(node.input[0])
    if attributes_of(node).get("axis", 0) % rank in axes:
        state.refuse(ALONG)
    state.keep(node)
    return dict(axes)


def running(state: State, node: NodeProto) -> Axes:
    """CumSum: what comes before counts; what comes after, where it is added up from the end, is zeros."""
    axes, axis = state.axes_of(node.input[0]), state.value(1)
    if attributes_of(node).get("reverse", 0) and axes:
        rank = len(state.info(node.input[0]).shape)
        along = None if axis is None else [int(axis.item()) % rank]
        state.like(node, {0: state.masked(node.input[0], 0, along)})
    else:
        state.keep(node)
    return dict(axes)


def of_all(state: State, node: NodeProto) -> Axes:
    """Softmax, LogSoftmax, Hardmax and LpNormalization: the rest is made what changes nothing."""
    rank, axes = len(state.info(node.input[0]).shape), state.axes_of(node.input[0])
    norm = node.op_type == "LpNormalization"
    old = not norm and state.opset < ONE_AXIS
    axis = attributes_of(node).get("axis", 1 if old else -1) % rank
    along = [*range(axis, rank)] if old else [axis]
    state.like(node, {0: state.masked(node.input[0], 0 if norm else -inf, along)})
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
    if not hit:
        state.keep(node)
    elif node.op_type == "ReduceMean":
        write_mean(state, node, gone, attributes.get("keepdims", 1))
    else:
        data = node.input[0]
        if node.op_type.startswith("Arg") and not axes[hit[0]].low:
            some = behind(state, none_lacks(state, exactly(1), axes[hit[0]]), axes[hit[0]])
            data = counted(state, data, axes | {hit[0]: some})
        state.like(node, {0: state.masked(data, NEUTRAL[node.op_type], hit)})
    keep = attributes.get("keepdims", 1)
    kept = [*range(rank)] if keep else [axis for axis in range(rank) if axis not in gone]
    return {kept.index(axis): size for axis, size in axes.items() if axis not in gone}


def largest(state: State, node: NodeProto) -> Axes:
    """TopK, of as many as data say or of what counts alone."""
    attributes, info = attributes_of(node), state.info(node.input[0])
    axis = attributes.get("axis", -1) % len(info.shape)
    data, axes = node.input[0], dict(state.axes_of(node.input[0]))
    sizes = needed(state, node.input[1]) if len(node.input) > 1 else None
    size = exactly(attributes["k"]) if sizes is None else sizes.reshape(-1)[0]
    there = axes.get(axis, exactly(info.shape[axis]))
    if size != there and size.high > there.low:
        lacking = none_lacks(state, size, there)
        if axis in axes:
            axes[axis] = behind(state, lacking, there)
            data = counted(state, data, axes)
        if not size.known:
            size = behind(state, lacking, size)
    # NaN is the greatest: of several the first come first, and what does not count is the last.
    greatest = nan if info.dtype.startswith("float") else inf
    fill = -inf if attributes.get("largest", 1) else greatest
    inputs = {0: state.masked(data, fill, [axis])} if axis in axes else {}
    found = {at: each for at, each in axes.items() if at != axis}
    if sizes is not None:
        inputs[1] = state.constant(np.array([min(size.high, info.shape[axis])], np.int64))
        if not size.known:
            found[axis] = size
    state.like(node, inputs)
    return found
