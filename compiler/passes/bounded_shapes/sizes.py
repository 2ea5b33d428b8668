"""Integers that follow from counts: computed exactly, and known within limits at build time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.derived import derived
from compiler.passes.bounded_shapes.state import WHOLE_EXTREMES, Size, State, exactly
from compiler.passes.shapes.blame import blame_inputs
from compiler.passes.shapes.folding import evaluate_node

Numbers = np.ndarray[Any, Any]

MOVES = {
    *("Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Squeeze"),
    *("Transpose", "Unsqueeze"),
}
"""Operators that put elements elsewhere."""
EACH = {"Abs", "Add", "Clip", "Div", "Max", "Min", "Mod", "Mul", "Neg", "Sub", "Sum"}
"""Operators of single elements."""
RISING = {"Add", "Ceil", "CumSum", "Floor", "Max", "Min", "ReduceMax", "ReduceMin", "ReduceSum", "Sum"}
"""Operators that make more of more."""
COMPARED: dict[str, Callable[[Size, Size], bool | None]] = {
    "Equal": lambda one, other: _surely(one.known and one == other, _apart(one, other)),
    "Greater": lambda one, other: _surely(one.low > other.high, one.high <= other.low),
    "GreaterOrEqual": lambda one, other: _surely(one.low >= other.high, one.high < other.low),
    "Less": lambda one, other: _surely(one.high < other.low, one.low >= other.high),
    "LessOrEqual": lambda one, other: _surely(one.high <= other.low, one.low > other.high),
}
MOST = 256
"""Tensors of more elements are no sizes."""


def _surely(yes: bool, no: bool) -> bool | None:
    return True if yes else False if no else None


def _apart(one: Size, other: Size) -> bool:
    return one.high < other.low or other.high < one.low


def sizes_of(state: State, name: str) -> Numbers | None:
    """The numbers of a tensor as ``Size``; None where no limits of them are known."""
    if name not in state.sizes:
        bounded(state, name)
    name = state.renamed.get(name, name)
    if name in state.sizes:
        return state.sizes[name]
    value = state.constants.get(name)
    if value is None or value.size > MOST or value.dtype.kind not in "iub":
        return None
    return _array([exactly(int(number)) for number in value.reshape(-1)], value.shape)


def needed(state: State, name: str) -> Numbers:
    """As ``sizes_of``; ModelError where no limits are known, which says what would make them so."""
    found = sizes_of(state, name)
    if found is not None:
        return found
    info = state.info(name)
    if info.dtype not in ("int32", "int64") or prod(info.shape) > MOST:
        state.refuse("has a size that is no few whole numbers")
    advise(state, name)
    return state.refuse(
        "has a data-dependent size, and nothing says how great it may be: bound it in the model, by a Clip "
        "or a Min"
    )


def advise(state: State, *names: str) -> None:
    """Raise ModelError if values that a user may give for inputs are all that leaves the numbers ``names``
    without a limit."""
    endless = [each for name in names for each in state.limits.endless(name)]
    blame_inputs(state.model, [], state.around, endless, lambda node: node.input)


def bounded(state: State, name: str) -> None:
    """Have few whole numbers ``name``, for which limits are known, be sizes, and never beyond these: whoever
    reads them from here on reads what is within, whatever NaN becomes."""
    info = state.tensors.get(name)
    if info is None or name in state.constants or name in state.sizes or name in state.renamed:
        return
    if info.dtype not in ("int32", "int64") or prod(info.shape) > MOST or state.axes_of(name):
        return
    low, high = (np.broadcast_to(end, info.shape) for end in state.limits.of(name))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return
    low, high = np.floor(low).astype(np.int64), np.ceil(high).astype(np.int64)
    kept = name
    for op, end in (("Max", low), ("Min", high)):
        limit = state.constant(end.astype(info.dtype))
        if state.opset >= WHOLE_EXTREMES:
            kept = state.add(op, [kept, limit])
        else:
            beyond = state.add("Less", [kept, limit] if op == "Max" else [limit, kept])
            kept = state.add("Where", [beyond, limit, kept])
    ends = zip(low.reshape(-1), high.reshape(-1), strict=True)
    state.sizes[kept] = _array([Size(int(a), int(b), kept, at) for at, (a, b) in enumerate(ends)], info.shape)
    state.renamed[name] = kept


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
    kind: Any = np.dtype(state.tensors[name].dtype if name in state.tensors else np.int64)
    if node.op_type == "Cast":
        kind = helper.tensor_dtype_to_np_dtype(attributes_of(node)["to"])
    elif made.size and all(isinstance(each, bool) for each in made.reshape(-1)):
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
        return moved(state, node, operands)
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
    if op in EACH and (each := _each(state, node, there)) is not None:
        return each
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


def _each(state: State, node: NodeProto, there: list[Numbers]) -> Numbers | None:
    """What arithmetic makes of each element, where that follows from one number alone."""
    wide = np.broadcast_arrays(*there)
    made = []
    for sizes in zip(*(each.reshape(-1) for each in wide), strict=True):
        if node.op_type in ("Div", "Mod") and sizes[1].low <= 0 <= sizes[1].high:
            return None
        found = derived(state, lambda *numbers: _run(state, node, [*numbers]), *sizes)
        if found is None:
            return None
        made.append(found)
    return _array(made, wide[0].shape)


def _run(state: State, node: NodeProto, values: list[Numbers]) -> Numbers:
    names = [name for name in node.input if name]
    return evaluate_node(node, dict(zip(names, values, strict=True)), state.opset)


def moved(state: State, node: NodeProto, operands: list[Numbers | None]) -> Numbers | None:
    """What is in the first operand (of a Concat in all) where ``node`` puts it."""
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
