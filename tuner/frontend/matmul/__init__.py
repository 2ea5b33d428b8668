"""Matrix products that no kernel of constant weights takes: as one node each, with what belongs to them.

They come last, when every other product has been found.
"""

from __future__ import annotations

from onnx import NodeProto, helper

from tuner.frontend.epilogue import Wiring
from tuner.frontend.matmul.operands import operand_of, result_of
from tuner.frontend.onnx_check import node_name
from tuner.frontend.onnx_graph import OnnxGraph
from tuner.frontend.own_nodes import MATMUL


def merge_matmuls(graph: OnnxGraph) -> None:
    """Replace MatMuls of float32 by nodes of ours that take in the transposes and factors around them."""
    wiring = Wiring.of(graph)
    replaced: dict[str, NodeProto] = {}
    for node in graph.nodes:
        if node.op_type != "MatMul" or not _is_ours(graph, node):
            continue
        left, right = (operand_of(graph, wiring, name, replaced.keys()) for name in node.input)
        result = result_of(graph, wiring, node.output[0])
        replaced[result.name] = helper.make_node(
            MATMUL,
            [left.name, right.name],
            [result.name],
            name=node_name(node),
            perms=[*left.perm, *right.perm, *result.perm],
            alpha=left.factor * right.factor * result.factor,
        )
    graph.nodes = [replaced.get(node.output[0], node) for node in graph.nodes]
    _drop_unread(graph)


def _is_ours(graph: OnnxGraph, node: NodeProto) -> bool:
    """Whether it is a product of matrices, none of them empty."""
    infos = [graph.tensors[name] for name in node.input]
    return all(info.dtype == "float32" and len(info.shape) > 1 and 0 not in info.shape for info in infos)


def _drop_unread(graph: OnnxGraph) -> None:
    """Leave out what only nodes read that are no longer there."""
    read, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if any(name in read for name in node.output):
            kept.append(node)
            read.update(node.input)
    graph.nodes = kept[::-1]
