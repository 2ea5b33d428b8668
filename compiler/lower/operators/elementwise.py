"""Functions of single elements: TVM's operators, in whatever layout their operands lie."""

from __future__ import annotations

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph
from compiler.lower.operators.layouts import Rule, if_images
from kernels.target import Target


def unary_rule(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """Of one activation; further inputs are bounds: numbers that have no layout."""
    return if_images(graph, node.input[:1], lambda _: 0.0)


def binary_rule(graph: OnnxGraph, node: NodeProto, target: Target, threads: int) -> Rule | None:
    """Of two activations of as many channels, or one and a constant."""
    if not all(_fits(graph, node, name) for name in node.input):
        return None
    return if_images(graph, [name for name in node.input if name not in graph.constants], lambda _: 0.0)


def _fits(graph: OnnxGraph, node: NodeProto, name: str) -> bool:
    """Whether an operand means the same in every layout once it is stored in it."""
    channels, shape = graph.tensors[node.output[0]].shape[1], graph.tensors[name].shape
    if name not in graph.constants:
        return len(shape) == 4 and shape[1] == channels
    return len(shape) <= 4 and (len(shape) < 3 or shape[-3] in (1, channels))
