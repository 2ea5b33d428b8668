"""Pools of a graph, as our kernels compute them."""

from __future__ import annotations

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of
from kernels.operators.pool import Pool

POOLS = {
    "AveragePool": "average",
    "GlobalAveragePool": "average",
    "GlobalMaxPool": "max",
    "MaxPool": "max",
}


def pool_geometry(graph: OnnxGraph, node: NodeProto) -> Pool | None:
    """The pooling at ``node``, of whatever type, or None when kernels compute none like it."""
    if len(graph.tensors[node.input[0]].shape) != 4:
        return None
    shape, out = graph.tensors[node.input[0]].shape, graph.tensors[node.output[0]].shape
    kind = POOLS[node.op_type]
    if node.op_type.startswith("Global"):
        return Pool(kind, shape, (1, 1), (shape[2], shape[3]), (1, 1), (0, 0))
    attributes = attributes_of(node)
    pads = attributes.get("pads", (0, 0, 0, 0))
    if any(step != 1 for step in attributes.get("dilations", (1, 1))):
        return None
    if attributes.get("storage_order", 0):
        return None
    window, stride = attributes["kernel_shape"], attributes.get("strides", (1, 1))
    counted = bool(attributes.get("count_include_pad", 0)) and any(pads)
    if counted and attributes.get("ceil_mode", 0):
        return None  # implementations differ on what the last windows count
    pool = Pool(
        kind,
        shape,
        (out[2], out[3]),
        (window[0], window[1]),
        (stride[0], stride[1]),
        (pads[0], pads[1]),
        counted,
    )
    return pool if pool.why_not() is None else None
