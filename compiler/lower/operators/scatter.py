"""ScatterND and ScatterElements, by functions of ours (``kernels/operators/scatter.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from onnx import NodeProto
from tvm import relax

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.functions import Functions, name_of
from kernels.operators.scatter import Elements, Scatter, build_elements, build_scatter


def scatter(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``."""
    info, places = (graph.tensors[name] for name in node.input[:2])
    rows, depth = prod(places.shape[:-1]), places.shape[-1]
    it = Scatter(info.shape, rows, depth, info.dtype, attributes_of(node).get("reduction", b"none").decode())
    function = Functions().get(builder, name_of("scatter", it), lambda name: build_scatter(it, name))
    flat = [(rows, depth), (rows, it.run)]
    values = [builder.emit(relax.op.reshape(value, to)) for value, to in zip(inputs[1:], flat, strict=True)]
    kind = relax.TensorType(info.shape, info.dtype)
    return builder.emit(relax.call_tir(function, [inputs[0], *values], kind))


def elements(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``."""
    info, places = (graph.tensors[name] for name in node.input[:2])
    attributes = attributes_of(node)
    axis, reduction = (
        attributes.get("axis", 0) % len(info.shape),
        attributes.get("reduction", b"none").decode(),
    )
    it = Elements(info.shape, places.shape, axis, info.dtype, reduction)
    function = Functions().get(builder, name_of("elements", it), lambda name: build_elements(it, name))
    values = [inputs[0], builder.emit(relax.op.astype(inputs[1], "int64")), inputs[2]]
    return builder.emit(relax.call_tir(function, values, relax.TensorType(info.shape, info.dtype)))
