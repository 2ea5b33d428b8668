"""Floats that follow from one count, until they are whole numbers again.

Exporters write ``floor(length * 2.0)`` for the size of what they resize.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, helper

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.derived import MOST_TOLD, derived, source_of
from compiler.passes.bounded_shapes.sizes import MOST, MOVES, moved, put, sizes_of
from compiler.passes.bounded_shapes.state import Size, State
from compiler.passes.shapes.folding import evaluate_node

Numbers = np.ndarray[Any, Any]
SINGLE = {"Add", "Cast", "Ceil", "Clip", "Div", "Floor", "Max", "Min", "Mul", "Neg", "Round", "Sub"}


@dataclass(frozen=True, eq=False)
class Real:
    """A number for each that ``source`` may be; one where there is none."""

    values: npt.NDArray[Any]
    source: Size | None = None


def follow(state: State, node: NodeProto) -> bool:
    """Whether ``node`` computes such numbers, or whole ones of them: then it is written."""
    if node.op_type not in SINGLE | MOVES or len(node.output) != 1:
        return False
    if not any(name in state.reals for name in node.input) and not _leaves(state, node):
        return False
    many = len(node.input) if node.op_type in SINGLE or node.op_type == "Concat" else 1
    operands = [_reals(state, name) for name in node.input[:many] if name]
    if any(each is None for each in operands):
        return False
    if node.op_type in MOVES - SINGLE:
        made = moved(state, node, [*operands, *(sizes_of(state, name) for name in node.input[many:])])
    else:
        made = _each(state, node, [each for each in operands if each is not None])
    if made is None or not made.size:
        return False
    if made.reshape(-1)[0].values.dtype.kind == "f":
        state.keep(node)
        state.reals[node.output[0]] = made
        return True
    sizes = [_size(state, each) for each in made.reshape(-1)]
    if None in sizes:
        return False
    whole = np.empty(len(sizes), object)
    whole[:] = sizes
    put(state, node, whole.reshape(made.shape))
    return True


def _leaves(state: State, node: NodeProto) -> bool:
    """Whether ``node`` makes floats of sizes."""
    if node.op_type != "Cast" or node.input[0] not in state.sizes:
        return False
    return bool(helper.tensor_dtype_to_np_dtype(attributes_of(node)["to"]).kind == "f")


def _reals(state: State, name: str) -> Numbers | None:
    if name in state.reals:
        return state.reals[name]
    known, sizes = state.constants.get(name), state.sizes.get(name)
    if known is not None and known.size <= MOST:
        values = [Real(number.reshape(1)) for number in known.reshape(-1)]
        return _array(values, known.shape)
    if sizes is None:
        return None
    dtype = np.dtype(state.info(name).dtype)
    made = []
    for size in sizes.reshape(-1):
        if size.known:
            made.append(Real(np.array([size.low], dtype)))
            continue
        source = source_of(size)
        if source.high - source.low >= MOST_TOLD:
            return None
        numbers = np.arange(source.low, source.high + 1) * size.times + size.plus
        made.append(Real(numbers.astype(dtype), source))
    return _array(made, sizes.shape)


def _each(state: State, node: NodeProto, operands: list[Numbers]) -> Numbers | None:
    wide, made = np.broadcast_arrays(*operands), []
    names = [name for name in node.input if name]
    for reals in zip(*(each.reshape(-1) for each in wide), strict=True):
        sources = {real.source for real in reals if real.source is not None}
        if len(sources) > 1:
            return None
        values = evaluate_node(
            node, {name: real.values for name, real in zip(names, reals, strict=True)}, state.opset
        )
        made.append(Real(np.asarray(values), next(iter(sources), None)))
    return _array(made, wide[0].shape)


def _size(state: State, real: Real) -> Size | None:
    if real.source is None:
        return Size(int(real.values[0]), int(real.values[0]))
    source = real.source
    return derived(state, lambda number: real.values[number - source.low], source)


def _array(values: list[Any], shape: tuple[int, ...]) -> Numbers:
    made = np.empty(len(values), object)
    made[:] = values
    return made.reshape(shape)
