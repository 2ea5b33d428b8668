"""Means and norms of what counts."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.places import above_zero, reduce_sum
from compiler.passes.bounded_shapes.state import ALONG, Axes, State


def mean(state: State, name: str, axes: Sequence[int], keep: int = 1) -> str:
    """The mean of ``name`` along ``axes`` of what counts."""
    return state.add("Div", _mean(state, name, axes, keep))


def write_mean(state: State, node: NodeProto, axes: Sequence[int], keep: int) -> None:
    """The same, as the result of ``node``."""
    state.write("Div", _mean(state, node.input[0], axes, keep), node.output)


def _mean(state: State, name: str, axes: Sequence[int], keep: int) -> list[str]:
    info, counted = state.info(name), state.axes_of(name)
    rest = prod(info.shape[axis] for axis in axes if axis not in counted)
    numbers = [state.count(counted[axis]) for axis in axes if axis in counted]
    numbers += [state.constant(np.array([rest]))] if rest != 1 or not numbers else []
    while len(numbers) > 1:
        numbers[:2] = [state.add("Mul", numbers[:2])]
    if np.dtype(info.dtype).kind in "iu":
        # Whole numbers by nothing are refused; of none the mean is 0, as onnxruntime has it.
        numbers = [above_zero(state, numbers[0])]
    number = state.once(
        ("divisor", name, *axes),
        lambda: state.add("Cast", numbers, to=helper.np_dtype_to_tensor_dtype(np.dtype(info.dtype))),
    )
    if not keep:
        number = state.add("Reshape", [number, state.constant(np.array([], np.int64))])
    return [reduce_sum(state, state.masked(name, 0, axes), axes, keep), number]


def normalized(state: State, node: NodeProto) -> Axes:
    """LayerNormalization, InstanceNormalization and BatchNormalization."""
    counted, attributes = state.axes_of(node.input[0]), attributes_of(node)
    shape = state.info(node.input[0]).shape
    if any(map(state.axes_of, node.input[1:])):
        state.refuse(ALONG)
    first = attributes.get("axis", -1) % len(shape) if node.op_type == "LayerNormalization" else 2
    if node.op_type == "BatchNormalization" or not any(axis >= first for axis in counted):
        if 1 in counted and node.op_type != "LayerNormalization":
            state.refuse(ALONG)
        state.keep(node)
        return dict(counted)
    if (1 in counted and node.op_type == "InstanceNormalization") or any(node.output[1:]):
        state.refuse(ALONG)
    axes = [*range(first, len(shape))]
    away = state.add("Sub", [node.input[0], mean(state, node.input[0], axes)])
    state.axes[away] = dict(counted)
    square = state.add("Mul", [away, away])
    state.axes[square] = dict(counted)
    small = state.constant(np.array(attributes.get("epsilon", 1e-5), state.info(node.input[0]).dtype))
    spread = state.add("Sqrt", [state.add("Add", [mean(state, square, axes), small])])
    made = state.add("Div", [away, spread])
    for op, name in (("Mul", node.input[1]), ("Add", node.input[2] if len(node.input) > 2 else "")):
        if name and node.op_type == "InstanceNormalization":
            lie = state.constant(np.array([-1] + [1] * (len(shape) - 2)))
            name = state.add("Reshape", [name, lie])
        made = state.add(op, [made, name]) if name else made
    state.write("Identity", [made], node.output)
    return dict(counted)
