"""Lookup tables: functions of one tensor between its DequantizeLinear and a QuantizeLinear."""

from __future__ import annotations

from collections.abc import Container, Mapping

import numpy as np
from onnx import NodeProto

from compiler.ir.checks import ModelError
from compiler.ir.graph import OnnxGraph
from compiler.passes.epilogues.epilogue import Wiring
from compiler.passes.quantize.nodes import QuantizedTensor, dequantized, quantized, quantized_constant
from compiler.passes.shapes.folding import evaluate_node
from kernels.int8.quantization import Array, Quantization
from kernels.operators.int8.lookup import QLookup

ELEMENTWISE = {
    *("Abs", "Ceil", "Celu", "Clip", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
    *(
        "LeakyRelu",
        "Log",
        "Mish",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Softplus",
    ),
    *("Softsign", "Sqrt", "Tanh", "ThresholdedRelu"),
    *("Add", "Div", "Max", "Min", "Mul", "PRelu", "Pow", "Sub"),
}
MAX_NODES = 32
"""Of one function."""


def lookup_of(
    graph: OnnxGraph,
    wiring: Wiring,
    known: Mapping[str, QuantizedTensor],
    real: str,
    out: Quantization,
) -> tuple[str, QLookup] | None:
    """``real`` as a function of one tensor of ``known`` (by their float names): that name, and the table.

    None when it is no such function, or not of numbers throughout.
    """
    found = _function(graph, wiring, known, real)
    if found is None:
        return None
    leaf, nodes = found
    source = known[leaf].quantization
    values = evaluate(graph, nodes, {leaf: source.real(source.all_quanta())}, real)
    if values is None or np.isnan(values).any():
        return None
    table = tuple(int(value) for value in out.quanta(values))
    return leaf, QLookup(graph.tensors[leaf].shape, source.dtype, out.dtype, table)


def requantization(shape: tuple[int, ...], data: Quantization, out: Quantization) -> QLookup:
    """The same real numbers, as far as ``out`` can say them."""
    return QLookup.of(shape, data, out, lambda values: values)


def _function(
    graph: OnnxGraph, wiring: Wiring, known: Container[str], real: str
) -> tuple[str, list[NodeProto]] | None:
    """The only activation that ``real`` depends on, and the nodes between, in order."""
    shape = graph.tensors[real].shape
    nodes: dict[str, NodeProto] = {}
    leaves: set[str] = set()
    wanted = [real]
    while wanted or len(leaves) > 1:
        if not wanted:
            # The deepest leaf may be a function of another.
            leaf = max(leaves, key=lambda name: wiring.depth.get(name, 0))
            back = wiring.writers[leaf]
            before = wiring.writers.get(back.input[0])
            if dequantized(graph, back) is None or before is None or quantized(graph, before) is None:
                return None
            leaves.remove(leaf)
            nodes |= {leaf: back, back.input[0]: before}
            wanted.append(before.input[0])
        name = wanted.pop()
        if name in known:
            if graph.tensors[name].shape != shape:
                return None
            leaves.add(name)
        elif name in graph.constants:
            if graph.constants[name].size != 1:
                return None
        elif name not in nodes:
            node = wiring.writers.get(name)
            if node is None or len(node.output) > 1:
                return None
            constant = quantized_constant(graph, node)
            if constant is not None and constant.quanta.size != 1:
                return None
            inside = node.op_type in ELEMENTWISE and graph.tensors[name].shape == shape
            if (constant is None and not inside) or len(nodes) >= MAX_NODES:
                return None
            nodes[name] = node
            if constant is None:
                wanted += [each for each in node.input if each]
    if not leaves:
        return None
    return leaves.pop(), sorted(nodes.values(), key=lambda node: wiring.depth[node.output[0]])


def evaluate(graph: OnnxGraph, nodes: list[NodeProto], feeds: dict[str, Array], output: str) -> Array | None:
    """``output`` for 256 values, by ONNX's own reference; None when that cannot compute it."""
    values = {**graph.constants, **feeds}
    try:
        with np.errstate(all="ignore"):
            for node in nodes:
                values[node.output[0]] = evaluate_node(node, values, graph.opset)
    except ModelError:
        return None
    result = values[output]
    return result.reshape(-1) if result.size == 256 else None
