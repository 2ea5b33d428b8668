"""Whole numbers that follow from counts: computed as they are, and known within limits beside that."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from tuner.frontend.counted.state import Size, State, exactly
from tuner.frontend.onnx_graph import attributes_of, evaluate_node

Numbers = np.ndarray[Any, Any]

MOVES = {
    *("Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze"),
    *("Transpose", "Unsqueeze"),
}
"""Operators that put elements elsewhere."""
RISING = {"Add", "Ceil", "Floor", "Max", "Min", "ReduceMax", "ReduceMin", "ReduceSum", "Sum"}
"""Operators that make more of more."""
COMPARED: dict[str, Callable[[Size, Size], bool | None]] = {
    "Equal": lambda one, other: _surely(one.known and one == other, _apart(one, other)),
    "Greater": lambda one, other: _surely(one.low > other.high, one.high <= other.low),
    "GreaterOrEqual": lambda one, other: _surely(one.low >= other.high, one.high < other.low),
    "Less": lambda one, other: _surely(one.high < other.low, one.low >= other.high),
    "LessOrEqual": lambda one, other: _surely(one.high <= other.low, one.low > other.high),
}
MOST = 64
"""Tensors of more elements are no sizes."""


def _surely(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def _apart(one: Size, other: Size) -> bool:
    return one.high < other.low or other.high < one.low


def sizes_of(state: State, name: str) -> Numbers | None:
    """The numbers of a tensor as ``Size``; None where no limits of them are known."""
    if name in state.sizes:
        return state.sizes[name]
    value = state.constants.get(name)
    if value is None or value.size > MOST or value.dtype.kind not in "iub":
        return None
    return _array([exactly(int(number)) for number in value.reshape(-1)], value.shape)


def compute(state: State, node: NodeProto) -> bool:
    """Whether ``node`` computes sizes of sizes; then it is written and they are known."""
    if not any(name in state.sizes for name in node.input) or len(node.output) != 1:
        return False
    operands = [sizes_of(state, name) if name else None for name in node.input]
    if any(name and each is None for name, each in zip(node.input, operands, strict=True)):
        return False
    made = _computed(state, node, operands)
    if made is None:
        return False
    put(state, node, made)
    return True


def put(state: State, node: NodeProto, made: Numbers) -> None:
    """Write ``node``, which makes these sizes: as a constant where data do not change them."""
    name = node.output[0]
    kind: Any = np.int64
    if node.op_type == "Cast":
        kind = helper.tensor_dtype_to_np_dtype(attributes_of(node)["to"])
    elif all(isinstance(each, bool) for each in made.reshape(-1)):
        kind = np.bool_
    if all(isinstance(each, bool) or each.known for each in made.reshape(-1)):
        state.make_constant(name, _map(made, lambda each: each if isinstance(each, bool) else each.low, kind))
        return
    state.keep(node)
    state.sizes[name] = made


def _computed(state: State, node: NodeProto, operands: list[Numbers | None]) -> Numbers | None:
    """The sizes that ``node`` makes; None where that is not known."""
    there = [each for each in operands if each is not None]
    op, name = node.op_type, node.output[0]
    if op == "Cast" and helper.tensor_dtype_to_np_dtype(attributes_of(node)["to"]).kind not in "iu":
        return None
    if op in MOVES:
        return _moved(state, node, operands)
    if op in COMPARED:
        one, other = np.broadcast_arrays(*there)
        found = [COMPARED[op](*pair) for pair in zip(one.reshape(-1), other.reshape(-1), strict=True)]
        return None if None in found else _array(found, one.shape)
    if op == "Where":
        truth, one, other = np.broadcast_arrays(*there)
        chosen = [
            yes if condition.low else no
            for condition, yes, no in zip(*(each.reshape(-1) for each in (truth, one, other)), strict=True)
        ]
        return _array(chosen, truth.shape) if all(each.known for each in truth.reshape(-1)) else None
    ends = _ends(state, node, there)
    if ends is None:
        return None
    numbers = zip(*(np.asarray(end).reshape(-1) for end in ends), itertools.count(), strict=False)
    return _array([Size(int(low), int(high), name, at) for low, high, at in numbers], ends[0].shape)


def _ends(state: State, node: NodeProto, there: list[Numbers]) -> tuple[Numbers, Numbers] | None:
    """The least and the greatest that arithmetic can come to."""
    low = [_map(each, lambda size: size.low) for each in there]
    high = [_map(each, lambda size: size.high) for each in there]
    op = node.op_type
    if op in RISING:
        return _run(state, node, low), _run(state, node, high)
    if op == "Sub":
        return low[0] - high[1], high[0] - low[1]
    if op in ("Mul", "ReduceProd") and min(each.min(initial=0) for each in low) >= 0:
        return _run(state, node, low), _run(state, node, high)
    if op == "Div" and low[0].min(initial=0) >= 0 and low[1].min(initial=1) > 0:
        return low[0] // high[1], high[0] // low[1]
    return None


def _run(state: State, node: NodeProto, values: list[Numbers]) -> Numbers:
    names = [name for name in node.input if name]
    return evaluate_node(node, dict(zip(names, values, strict=True)), state.opset)


def _moved(state: State, node: NodeProto, operands: list[Numbers | None]) -> Numbers | None:
    """The sizes of the first operand (of a Concat all) where ``node`` puts them."""
    many = len(operands) if node.op_type == "Concat" else 1
    if any(each is None for each in operands[:many]):
        return None
    every = [size for each in operands[:many] if each is not None for size in each.reshape(-1)]
    values: dict[str, Numbers] = {}
    begin = 0
    for name, each in zip(node.input, operands, strict=True):
        if each is None:
            continue
        if begin < len(every) and name in node.input[:many]:
            values.setdefault(name, np.arange(begin, begin + each.size).reshape(each.shape))
            begin += each.size
        elif not all(size.known for size in each.reshape(-1)):
            return None
        else:
            values[name] = _map(each, lambda size: size.low)
    made = evaluate_node(node, values, state.opset)
    return _array([every[int(number)] for number in made.reshape(-1)], made.shape)


def _map(sizes: Numbers, number: Callable[[Any], Any], kind: Any = np.int64) -> Numbers:
    return np.array([number(each) for each in sizes.reshape(-1)], kind).reshape(sizes.shape)


def _array(values: list[Any], shape: tuple[int, ...]) -> Numbers:
    made = np.empty(len(values), object)
    made[:] = values
    return made.reshape(shape)
