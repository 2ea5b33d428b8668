"""Operators of single elements, and Concat."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import NodeProto

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.derived import total
from compiler.passes.bounded_shapes.places import within
from compiler.passes.bounded_shapes.state import ALONG, APART, Axes, Size, State, exactly


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


def scaled(state: State, node: NodeProto) -> Axes:
    """QuantizeLinear and DequantizeLinear: a scale for all, or for each place of an axis."""
    axes = state.axes_of(node.input[0])
    rank, many = len(state.info(node.input[0]).shape), len(state.info(node.input[1]).shape)
    if any(map(state.axes_of, node.input[1:])) or many > 1:
        state.refuse(ALONG)
    if (
        many
        and prod(state.info(node.input[1]).shape) > 1
        and attributes_of(node).get("axis", 1) % rank in axes
    ):
        state.refuse(ALONG)
    state.keep(node)
    return dict(axes)


def quantized(state: State, node: NodeProto) -> Axes:
    """DynamicQuantizeLinear: zeros, which every range has in it and the zero point stands for."""
    axes = dict(state.axes_of(node.input[0]))
    state.like(node, {0: state.masked(node.input[0], 0)})
    state.fills[node.output[0]] = node.output[2]
    return axes


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
    if any(at not in state.axes_of(name) for name in names for at in around):
        state.refuse(APART)
    parts = [state.axes_of(n).get(axis, exactly(state.info(n).shape[axis])) for n in names]
    if all(part.known for part in parts):
        state.keep(node)
        return around
    size = total(state, parts)
    if all(part.known for part in parts[:-1]):
        state.keep(node)
        return around | {axis: size}
    whole = state.add("Concat", names, axis=axis)
    rooms = [state.info(name).shape[axis] for name in names]
    state.write("Gather", [whole, _places(state, parts, rooms, size)], node.output, axis=axis)
    return around | {axis: size}


def _places(state: State, parts: list[Size], rooms: list[int], size: Size) -> str:
    """Where in the whole each element lies that counts: further on by what the parts before have to spare."""
    numbers = state.constant(np.arange(size.high, dtype=np.int64))
    places, none = numbers, state.constant(np.array([0]))
    for at, (part, room) in enumerate(zip(parts[:-1], rooms, strict=False)):
        if part.known:
            continue
        before = state.add("Less", [numbers, state.count(total(state, parts[: at + 1]))])
        spare = state.add("Sub", [state.constant(np.array([room])), state.count(part)])
        places = state.add("Add", [places, state.add("Where", [before, none, spare])])
    return within(state, places, sum(rooms))
