"""Canonicalize clamps and means: one operator for each, which epilogues and layouts know."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.graph import OnnxGraph, TensorInfo, attributes_of

ENDS = {"Max": "min", "Min": "max"}
"""The largest of x and a number is x clipped from below."""
GLOBAL = {"ReduceMax": "GlobalMaxPool", "ReduceMean": "GlobalAveragePool"}
BOUNDS_AS_INPUTS = 11
"""The version of Clip that takes them so."""


def canonicalize(graph: OnnxGraph) -> None:
    """Write Max and Min with a number as Clip, reductions of images to their channels as global pools."""
    nodes: list[NodeProto] = []
    for node in graph.nodes:
        if graph.tensors[node.output[0]].dtype == "float32":
            if node.op_type in ENDS:
                node = _clip(graph, node) or node
            elif node.op_type in GLOBAL and _is_of_planes(graph, node):
                nodes += _pool(graph, node)
                continue
        nodes.append(node)
    graph.nodes = nodes


def _clip(graph: OnnxGraph, node: NodeProto) -> NodeProto | None:
    data = [name for name in node.input if name not in graph.constants]
    bounds = [graph.constants[name] for name in node.input if name in graph.constants]
    shape = graph.tensors[node.output[0]].shape
    if len(data) != 1 or len(bounds) != 1 or bounds[0].size != 1 or graph.tensors[data[0]].shape != shape:
        return None
    value = float(bounds[0].item())
    if np.isnan(value):
        return None
    if graph.opset < BOUNDS_AS_INPUTS:
        end: dict[str, Any] = {ENDS[node.op_type]: value}
        return helper.make_node("Clip", data, node.output, name=node_name(node), **end)
    bound = graph.constant(f"{node.output[0]}/bound", np.array(value, np.float32))
    inputs = [*data, bound] if node.op_type == "Max" else [*data, "", bound]
    return helper.make_node("Clip", inputs, node.output, name=node_name(node))


def _is_of_planes(graph: OnnxGraph, node: NodeProto) -> bool:
    """Whether a reduction is over rows and columns of an image."""
    axes = attributes_of(node).get("axes")
    if len(node.input) > 1 and node.input[1]:
        found = graph.constants.get(node.input[1])
        axes = None if found is None else found.tolist()
    shape = graph.tensors[node.input[0]].shape
    return len(shape) == 4 and axes is not None and sorted(axis % 4 for axis in axes) == [2, 3]


def _pool(graph: OnnxGraph, node: NodeProto) -> list[NodeProto]:
    name, output, op = node_name(node), node.output[0], GLOBAL[node.op_type]
    if attributes_of(node).get("keepdims", 1):
        return [helper.make_node(op, [node.input[0]], [output], name=name)]
    info = graph.tensors[output]
    pooled = graph.fresh(f"{output}/pooled")
    graph.tensors[pooled] = TensorInfo((*info.shape, 1, 1), info.elem_type)
    shape = graph.constant(f"{output}/shape", np.array(info.shape, np.int64))
    return [
        helper.make_node(op, [node.input[0]], [pooled], name=name),
        helper.make_node("Reshape", [pooled, shape], [output], name=name),
    ]
