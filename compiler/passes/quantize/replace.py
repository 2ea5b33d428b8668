"""Replace the quantized parts of a graph by integer products and operators; the rest stays floats."""

from __future__ import annotations

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph
from compiler.passes.cleanup.dead_code import needed
from compiler.passes.quantize.nodes import BYTES, QuantizedTensor, check_quantization, quantized
from compiler.passes.quantize.operators import NODES
from compiler.passes.quantize.rewriting import Rewriting


def replace_quantized(graph: OnnxGraph) -> Rewriting:
    """Replace in ``graph`` what integer kernels compute; what they are by their outputs' names.

    A node is replaced by what computes the same to within a quantum; one that nothing matches stays, between
    the DequantizeLinear and QuantizeLinear nodes that it has. Raises ModelError for scales and zero points
    that make no sense.
    """
    check_quantization(graph)
    _merge_equal(graph)
    rewriting = Rewriting(graph)
    if not any(info.dtype in BYTES for info in graph.tensors.values()):
        return rewriting
    for node in graph.nodes:
        if node.output[0] in rewriting.taken:
            continue
        match = NODES.get(node.op_type)
        if match is None or not match(rewriting, node):
            rewriting.copy(node)
    graph.nodes = needed(rewriting.nodes, graph.outputs)
    return rewriting


def _merge_equal(graph: OnnxGraph) -> None:
    """Quantize each tensor but once in the same way: so it is seen that nothing else reads it."""
    first: dict[tuple[str, QuantizedTensor], str] = {}
    same: dict[str, str] = {}
    kept: list[NodeProto] = []
    for node in graph.nodes:
        node.input[:] = [same.get(name, name) for name in node.input]
        out = quantized(graph, node)
        if out is not None:
            known = first.setdefault((node.input[0], QuantizedTensor("", out.quantization)), out.name)
            if known != out.name and out.name not in graph.outputs:
                same[out.name] = known
                continue
        kept.append(node)
    graph.nodes = kept
