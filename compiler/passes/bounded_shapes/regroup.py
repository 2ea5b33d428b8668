"""A Reshape that puts what counts beside other elements: each is taken from its place by its number."""

from __future__ import annotations

from math import prod

import numpy as np
from onnx import NodeProto

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.derived import wanted
from compiler.passes.bounded_shapes.places import above_zero, within
from compiler.passes.bounded_shapes.sizes import needed
from compiler.passes.bounded_shapes.state import Axes, Size, State, exactly


def regrouped(state: State, node: NodeProto) -> Axes:
    """Write the Reshape ``node`` as a Gather from all elements in a line."""
    name, counted = node.input[0], state.axes_of(node.input[0])
    shape = state.info(name).shape
    before = [counted.get(axis, exactly(extent)) for axis, extent in enumerate(shape)]
    after = _after(state, node, before)
    room = [size.high for size in after]
    numbers, step = state.constant(np.zeros((1,) * len(room), np.int64)), exactly(1)
    for axis in reversed(range(len(room))):
        lie = [-1 if at == axis else 1 for at in range(len(room))]
        line = state.constant(np.arange(room[axis]).reshape(lie))
        numbers = state.add("Add", [numbers, state.add("Mul", [line, state.count(step)])])
        step = _product(state, [step, after[axis]])
    places = state.constant(np.zeros((), np.int64))
    for axis in reversed(range(len(shape))):
        count = above_zero(state, state.count(before[axis]))
        number = state.add("Mod", [numbers, count])
        numbers = state.add("Div", [numbers, count])
        apart = state.constant(np.array(prod(shape[axis + 1 :]), np.int64))
        places = state.add("Add", [places, state.add("Mul", [number, apart])])
    line = state.add("Reshape", [name, state.constant(np.array([-1]))])
    state.write("Gather", [line, within(state, places, prod(shape))], node.output, axis=0)
    return {axis: size for axis, size in enumerate(after) if not size.known}


def _after(state: State, node: NodeProto, before: list[Size]) -> list[Size]:
    """The sizes of the result."""
    if node.op_type == "Flatten":
        axis = attributes_of(node).get("axis", 1) % (len(before) + 1)
        return [_product(state, before[:axis]), _product(state, before[axis:])]
    told = [*needed(state, node.input[1]).reshape(-1)]
    if not attributes_of(node).get("allowzero", 0):
        told = [before[at] if size == exactly(0) else size for at, size in enumerate(told)]
    if exactly(-1) in told:
        rest = _product(state, [size for size in told if size != exactly(-1)])
        whole = _product(state, before)
        told[told.index(exactly(-1))] = wanted(state, lambda a, b: a // np.maximum(1, b), whole, rest)
    return told


def _product(state: State, sizes: list[Size]) -> Size:
    found = exactly(1)
    for size in sizes:
        found = wanted(state, np.multiply, found, size)
    return found
