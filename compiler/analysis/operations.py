"""Count the operations of products that no kernel computes, where their shapes are known."""

from __future__ import annotations

from math import prod

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of

_CONVOLUTIONS = ("Conv", "ConvInteger", "QLinearConv", "DeformConv")
_MATMULS = ("MatMul", "MatMulInteger", "QLinearMatMul", "Gemm")


def operations(graph: OnnxGraph, node: NodeProto) -> int | None:
    """Of one run of ``node``, two a multiply-add; None where nothing here knows."""
    quantized = node.op_type.startswith("QLinear")
    data, weights = (_shape(graph, node, at) for at in ((0, 3) if quantized else (0, 1)))
    result = graph.tensors.get(node.output[0])
    if result is None or not data or not weights:
        return None
    if node.op_type in _CONVOLUTIONS:
        return 2 * prod(result.shape) * prod(weights[1:])
    if node.op_type in _MATMULS:
        across = attributes_of(node).get("transA", 0) if node.op_type == "Gemm" else 0
        return 2 * prod(result.shape) * data[0 if across else -1]
    return None


def _shape(graph: OnnxGraph, node: NodeProto, at: int) -> tuple[int, ...] | None:
    name = node.input[at] if at < len(node.input) else ""
    if name in graph.constants:
        return tuple(graph.constants[name].shape)
    return graph.tensors[name].shape if name in graph.tensors else None
