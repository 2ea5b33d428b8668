"""Inputs that decide by their values what a model is, so that the values must be given beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from compiler.ir.checks import ModelError, node_name

FEW_ELEMENTS = 16
"""A user may give the value of an input up to this size."""
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def blame_inputs(
    model: ModelProto,
    nodes: list[NodeProto],
    node: NodeProto,
    decide: Iterable[str],
    reads: Callable[[NodeProto], Iterable[str]],
    arrays: bool = True,
) -> None:
    """Raise ModelError if values that a user may give for inputs make what would ``decide`` of ``node``.

    ``reads`` tells what a node reads. Inputs of several floats, which are data as a rule, are not blamed
    without ``arrays``.
    """
    makers = {name: each for each in nodes for name in each.output if name}
    seen: set[str] = set()
    open_names = list(decide)
    while open_names:
        name = open_names.pop()
        if name not in seen:
            seen.add(name)
            open_names += reads(makers[name]) if name in makers else []
    inputs = [value for value in model.graph.input if value.name in seen]
    if inputs and all(_may_be_given(value.type.tensor_type, arrays) for value in inputs):
        options = " ".join(f"--value {value.name}={_wanted(value)}" for value in inputs)
        listed = ", ".join(repr(value.name) for value in inputs)
        raise ModelError(
            f"what node {node_name(node)!r} ({node.op_type}) does depends on the input {listed}: give the "
            f"value that it shall always have, {options}"
        )


def _may_be_given(kind: TypeProto.Tensor, arrays: bool) -> bool:
    return _elements(kind) <= (FEW_ELEMENTS if arrays or kind.elem_type not in FLOATS else 1)


def _wanted(value: ValueInfoProto) -> str:
    return ",".join(["NUMBER"] * _elements(value.type.tensor_type))


def _elements(kind: TypeProto.Tensor) -> int:
    return math.prod(dim.dim_value for dim in kind.shape.dim)
