"""Slices of what counts, from either end, and to ends that data decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.derived import derived
from compiler.passes.bounded_shapes.places import within
from compiler.passes.bounded_shapes.sizes import advise, sizes_of
from compiler.passes.bounded_shapes.state import Axes, Size, State, exactly

Integers = npt.NDArray[np.int64]
LAST = 2**31 - 1
"""An end at least as great is that of the axis."""


def part(state: State, node: NodeProto) -> Axes:
    """Slice: of an axis along which data decide how many count, or by places that data decide."""
    name, given = node.input[0], attributes_of(node)
    shape, counted = state.info(name).shape, dict(state.axes_of(name))
    starts, ends, axes, steps = (_operand(state, node, place, given) for place in range(4))
    if axes is None or steps is None or not all(size.known for size in [*axes, *steps]):
        advise(state, *filter(None, node.input[3:]))
        state.refuse("has a data-dependent step")
    found, cuts = dict(counted), []
    for at, (along, step) in enumerate(zip(axes, steps, strict=True)):
        axis, by = along.low % len(shape), step.low
        start, end = (None if each is None else each[at] for each in (starts, ends))
        size = counted.get(axis, exactly(shape[axis]))
        if size.known and start is not None and end is not None and start.known and end.known:
            cuts.append((start.low, end.low, axis, by))
            continue
        first, found[axis] = _line(state, node, size, start, end, by, at)
        if first.known and by == 1:
            cuts.append((first.low, first.low + found[axis].high, axis, 1))
        else:
            name = _picked(state, name, axis, first, found[axis], by)
    if cuts or name == node.input[0]:
        columns = [state.constant(np.array(column, np.int64)) for column in zip(*cuts, strict=True)]
        state.write("Slice", [name, *columns], node.output)
    else:
        state.write("Identity", [name], node.output)
    return {axis: size for axis, size in found.items() if not size.known}


def _line(
    state: State, node: NodeProto, size: Size, start: Size | None, end: Size | None, by: int, at: int
) -> tuple[Size, Size]:
    """The first of the elements along an axis of ``size``, and how many there are."""
    if start is not None and end is not None:
        first, many = (
            derived(state, lambda n, a, b, at=at: _span(n, a, b, by)[at], size, start, end) for at in (0, 1)
        )
        if first is not None and many is not None:
            return first, many
    if start is None or not start.known or start.low < 0 or by != 1:
        advise(state, *node.input[1:3])
        state.refuse(
            "has a data-dependent start, or takes rows from the end of an axis with a data-dependent length"
        )
    return start, _rest(state, size, start.low, end, node, at)


def _span(size: Integers, start: Integers, end: Integers, by: int) -> tuple[Integers, Integers]:
    """Where a Slice begins, and how many elements it has."""
    low, high = (0, size) if by > 0 else (-1, size - 1)
    start, end = (np.where(each < 0, each + size, each) for each in (start, end))
    # An end before the first element has no other name than one far below.
    start, end = (np.minimum(np.maximum(each, low), high) for each in (start, end))
    many = np.maximum(0, -((start - end) // by))
    return np.where(many > 0, start, 0), many


def _picked(state: State, name: str, axis: int, first: Size, many: Size, by: int) -> str:
    """``many`` elements from ``first`` on, by their places."""
    extent = state.info(name).shape[axis]
    places = state.add("Add", [state.constant(by * np.arange(many.high)), state.count(first)])
    return state.add("Gather", [name, within(state, places, extent)], axis=axis)


def _rest(state: State, size: Size, start: int, end: Size | None, node: NodeProto, at: int) -> Size:
    """How many are left of ``size`` from ``start`` on to ``end``, or to the number ``at`` of the ends."""
    name, low, high = state.count(size), size.low, size.high
    if end is None or not end.known or end.low < LAST:
        if end is None:
            limits = state.add("Reshape", [node.input[2], state.constant(np.array([-1]))])
            limit = state.add("Gather", [limits, state.constant(np.array([at]))])
            end = Size(-LAST, LAST)
        else:
            limit = state.count(end)
        if end.low < 0:
            below = state.add("Less", [limit, state.constant(np.array([0]))])
            limit = state.add("Where", [below, state.add("Add", [limit, name]), limit])
            ends = (0, high)
        else:
            ends = (end.low, end.high)
        name = state.add("Where", [state.add("Less", [limit, name]), limit, name])
        low, high = min(low, ends[0]), min(high, ends[1])
    if start:
        name = state.add("Sub", [name, state.constant(np.array([start]))])
    zero = state.constant(np.array([0]))
    name = state.add("Where", [state.add("Less", [name, zero]), zero, name])
    return Size(max(0, low - start), max(0, high - start), name)


def _operand(state: State, node: NodeProto, place: int, given: dict[str, Any]) -> list[Size] | None:
    """Starts, ends, axes or steps; None where data decide them."""
    word = ("starts", "ends", "axes", "steps")[place]
    if word in given:
        return [exactly(number) for number in given[word]]
    if len(node.input) > place + 1 and node.input[place + 1]:
        sizes = sizes_of(state, node.input[place + 1])
        return None if sizes is None else [*sizes.reshape(-1)]
    starts = given.get("starts")
    count = len(starts) if starts is not None else state.info(node.input[1]).shape[0]
    return [exactly(at if place == 2 else 1) for at in range(count)]
