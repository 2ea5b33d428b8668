"""Promote float16 and bfloat16: the model becomes one of float32 with the same inputs and outputs.

No kernel computes in them, and hardware seldom does: onnxruntime, too, computes most operators in float32 and
rounds after each. Here nothing is rounded in between: constants are what they were, exactly, and what is
rounded are the inputs by whoever makes them, and the results. A Cast to 16 bits of what nothing of 16 bits
went into is a rounding that somebody asked for: ``compiler/passes/precision/roundings.py``.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from compiler.ir.checks import nested
from compiler.ir.names import rename
from compiler.passes.precision.roundings import NARROW, keep_roundings

TYPES = ("to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision")
"""Attributes that say an element type."""


def promote_half(model: ModelProto) -> bool:
    """Compute in float32 whatever is narrower, in place; casts keep the types of inputs and outputs.

    Says whether anything is computed otherwise than it was.
    """
    graph = model.graph
    rounded, otherwise = keep_roundings(graph)
    _widen(graph, rounded)
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants and _narrow(value)]
    outputs = [value for value in graph.output if _narrow(value)]
    names = {value.name: f"{value.name}/float32" for value in (*inputs, *outputs)}
    for value in graph.input:
        if value.name in constants and _narrow(value):
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    if not names:
        return otherwise
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    for node in nodes:
        rename(node, names)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    first = [_cast(value.name, names[value.name], TensorProto.FLOAT) for value in inputs]
    # What is given back needs no node, and what is given twice needs one.
    given = {value.name for value in inputs}
    made = {value.name: value for value in outputs if value.name not in given}
    last = [_cast(names[name], name, value.type.tensor_type.elem_type) for name, value in made.items()]
    del graph.node[:]
    graph.node.extend([*first, *nodes, *last])
    return otherwise


def _cast(source: str, to: str, kind: int) -> NodeProto:
    return helper.make_node("Cast", [source], [to], name=f"{to}/cast", to=kind)


def _narrow(value: ValueInfoProto) -> bool:
    return value.type.tensor_type.elem_type in NARROW


def _widen(graph: GraphProto, rounded: Container[str], inner: bool = False) -> None:
    """Constants and types that attributes say, but of what is ``rounded``; and of a graph inside a node those
    of its results."""
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        if node.output and node.output[0] in rounded:
            continue
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            elif attribute.name in TYPES and attribute.i in NARROW:
                attribute.i = TensorProto.FLOAT
        for body in nested(node):
            _widen(body, rounded, inner=True)
    for value in graph.output if inner else ():
        if _narrow(value):
            value.type.tensor_type.elem_type = TensorProto.FLOAT


def _widen_tensor(tensor: TensorProto) -> None:
    if tensor.data_type in NARROW:
        array = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
