"""Batch norms outside of epilogues: one factor and one addend a channel, computed at build time."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.graph import Array, OnnxGraph, TensorInfo
from compiler.passes.epilogues.epilogue import Chain, Wiring


def merge_affine(graph: OnnxGraph) -> None:
    """Replace every batch norm, with what scales and shifts after it, by one Mul and one Add."""
    wiring = Wiring.of(graph)
    taken: set[str] = set()
    replaced: dict[str, list[NodeProto]] = {}
    for node in graph.nodes:
        if node.op_type != "BatchNormalization" or node.output[0] in taken:
            continue
        chain = Chain(graph, node, channel_axis=1)
        if not chain.start_affine():
            continue
        chain.extend_affine(wiring)
        taken.update(chained.output[0] for chained in chain.nodes)
        replaced[chain.output] = _nodes(graph, node, chain)
    nodes: list[NodeProto] = []
    for node in graph.nodes:
        if node.output[0] in replaced:
            nodes += replaced[node.output[0]]
        elif node.output[0] not in taken:
            nodes.append(node)
    graph.nodes = nodes


def _nodes(graph: OnnxGraph, first: NodeProto, chain: Chain) -> list[NodeProto]:
    data, output = first.input[0], chain.output
    shape = (-1,) + (1,) * (len(graph.tensors[data].shape) - 2)
    name = node_name(first)

    def constant(suffix: str, value: Array | None, otherwise: float) -> str:
        value = np.full(chain.channels, otherwise) if value is None else value
        array = value.astype(helper.tensor_dtype_to_np_dtype(graph.tensors[data].elem_type)).reshape(shape)
        graph.constants[f"{output}/{suffix}"] = array
        graph.tensors[f"{output}/{suffix}"] = TensorInfo(array.shape, graph.tensors[data].elem_type)
        return f"{output}/{suffix}"

    scale, shift = constant("scale", chain.scale, 1.0), constant("shift", chain.shift, 0.0)
    graph.tensors[f"{output}/scaled"] = graph.tensors[data]
    return [
        helper.make_node("Mul", [data, scale], [f"{output}/scaled"], name=name),
        helper.make_node("Add", [f"{output}/scaled", shift], [output], name=name),
    ]
