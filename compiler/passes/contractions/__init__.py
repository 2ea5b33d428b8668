"""Products of activations and attentions: one node each, with transposes, factors and masks.

They come last, when every other product has been found.
"""

from __future__ import annotations

from collections.abc import Set

from onnx import NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.graph import OnnxGraph
from compiler.ir.own_nodes import ATTENTION, MATMUL
from compiler.passes.cleanup.dead_code import needed
from compiler.passes.contractions.attention import Found, attention_from
from compiler.passes.contractions.operands import grouped_operand, operand_of, result_of
from compiler.passes.epilogues.epilogue import Wiring
from kernels.workload.attention import DEEPEST


def merge_matmuls(graph: OnnxGraph) -> None:
    """Replace MatMuls of float32 by nodes of ours that take in the transposes and factors around them.

    Two of them with a Softmax between become one attention.
    """
    wiring = Wiring.of(graph)
    ours = {
        node.output[0]: node for node in graph.nodes if node.op_type == "MatMul" and _is_ours(graph, node)
    }
    attentions = {}
    for node in ours.values():
        found = attention_from(graph, wiring, node)
        if found is not None and found.last.output[0] in ours and _is_attention(graph, found):
            attentions[found.last.output[0]] = found
    begun = {found.first.output[0] for found in attentions.values()}
    written: set[str] = set()
    nodes: dict[str, list[NodeProto]] = {}
    for name, node in ours.items():
        if name in begun:
            continue
        found = attentions.get(name)
        made = (
            _product(graph, wiring, node, written)
            if found is None
            else _attention(graph, wiring, found, written)
        )
        written.add(made[-1].output[0])
        nodes[made[-1].output[0]] = made
    graph.nodes = [new for node in graph.nodes for new in nodes.get(node.output[0], [node])]
    graph.nodes = needed(graph.nodes, graph.outputs)


def _product(graph: OnnxGraph, wiring: Wiring, node: NodeProto, written: Set[str]) -> list[NodeProto]:
    left, right = (operand_of(graph, wiring, name, written) for name in node.input)
    result = result_of(graph, wiring, node.output[0])
    made = helper.make_node(
        MATMUL,
        [left.name, right.name],
        [result.name],
        name=node_name(node),
        perms=[*left.perm, *right.perm, *result.perm],
        alpha=left.factor * right.factor * result.factor,
    )
    return [made]


def _attention(graph: OnnxGraph, wiring: Wiring, found: Found, written: Set[str]) -> list[NodeProto]:
    queries = operand_of(graph, wiring, found.first.input[0], written)
    keys, values = (
        grouped_operand(graph, wiring, name, written) for name in (found.first.input[1], found.last.input[1])
    )
    result = result_of(graph, wiring, found.last.output[0])
    nodes: list[NodeProto] = []
    mask = found.mask_of(graph, nodes)
    made = helper.make_node(
        ATTENTION,
        [queries.name, keys.name, values.name, *([mask] if mask else [])],
        [result.name],
        name=node_name(found.last),
        perms=[*queries.perm, *keys.perm, *values.perm, *result.perm],
        scale=queries.factor * keys.factor * found.factor,
        alpha=values.factor * result.factor,
        causal=-1 if found.causal is None else found.causal,
        zeros=int(found.empty),
    )
    return [*nodes, made]


def _is_ours(graph: OnnxGraph, node: NodeProto) -> bool:
    """Whether it is a product of matrices, none of them empty."""
    infos = [graph.tensors[name] for name in node.input]
    return all(info.dtype == "float32" and len(info.shape) > 1 and 0 not in info.shape for info in infos)


def _is_attention(graph: OnnxGraph, found: Found) -> bool:
    """Whether all have the same axes and heads are of a size that a workspace is made for."""
    ranks = {len(graph.tensors[name].shape) for node in (found.first, found.last) for name in node.input}
    return len(ranks) == 1 and graph.tensors[found.first.input[0]].shape[-1] <= DEEPEST
