"""Poolings of a quantized tensor, and means over its rows and columns."""

from __future__ import annotations

from onnx import NodeProto

from compiler.analysis.pooling import pool_geometry
from compiler.ir.graph import attributes_of
from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.nodes import QuantizedTensor, unit
from compiler.passes.quantize.qlinear import MICROSOFT, Expansion, unary
from compiler.passes.quantize.rewriting import Rewriting
from kernels.operators.int8.pool import QPool
from kernels.operators.pool import Pool

BYTES_OPSET = 12
"""From which operator set on MaxPool knows bytes."""


def max_pool(rewriting: Rewriting, node: NodeProto) -> bool:
    """MaxPool or GlobalMaxPool, which commutes with DequantizeLinear."""
    source, real = rewriting.known.get(node.input[0]), node.output[0]
    if source is None and rewriting.is_bytes(node.input[0]):
        # No quantization is needed to find the largest.
        name, dtype = node.input[0], rewriting.graph.tensors[node.input[0]].dtype
        source = QuantizedTensor(rewriting.source(name), unit(dtype))
    pool = None if source is None or len(node.output) > 1 else pool_geometry(rewriting.graph, node)
    if source is None or pool is None:
        return False
    try:
        what = QPool.of(pool, source.quantization, source.quantization)
    except ValueError:
        return False
    if rewriting.is_bytes(real):
        rewriting.operator(what, [source.name], real, node)
        return True
    name = rewriting.bytes_like(f"{real}/bytes", real, source.quantization.dtype)
    rewriting.operator(what, [source.name], name, node)
    rewriting.known_as(real, QuantizedTensor(name, source.quantization), node)
    return True


def average_pool(rewriting: Rewriting, node: NodeProto) -> bool:
    """AveragePool, GlobalAveragePool or the mean over rows and columns, then QuantizeLinear."""
    source = rewriting.known.get(node.input[0])
    tail = rewriting.tail(node.output[0])
    if source is None or tail is None or tail.clamp is not None:
        return False
    mean = node.op_type == "ReduceMean"
    pool = _mean(rewriting, node) if mean else pool_geometry(rewriting.graph, node)
    if pool is None:
        return False
    try:
        what = QPool.of(pool, source.quantization, tail.out.quantization)
    except ValueError:
        return False
    rewriting.operator(what, [source.name], tail.out.name, node)
    rewriting.take([node, *tail.nodes])
    return True


def _mean(rewriting: Rewriting, node: NodeProto) -> Pool | None:
    """The pooling that a mean over rows and columns is."""
    graph = rewriting.graph
    shape, attributes = graph.tensors[node.input[0]].shape, attributes_of(node)
    axes = attributes.get("axes")
    if len(node.input) > 1 and node.input[1] in graph.constants:
        axes = graph.constants[node.input[1]].reshape(-1).tolist()
    if len(shape) != 4 or axes is None or not attributes.get("keepdims", 1):
        return None
    if sorted(axis % 4 for axis in axes) != [2, 3]:
        return None
    return Pool("average", shape, (1, 1), (shape[2], shape[3]), (1, 1), (0, 0))


def _channels_last(form: Expansion) -> None:
    if form.opset < BYTES_OPSET:
        form.refuse(
            f"finds the largest bytes, which needs operator set {BYTES_OPSET}: "
            "convert the model (onnx.version_converter.convert_version)"
        )
    form.write("MaxPool", [form.data()], **form.attributes)


FORMS = Forms(
    nodes={
        "AveragePool": average_pool,
        "GlobalAveragePool": average_pool,
        "GlobalMaxPool": max_pool,
        "MaxPool": max_pool,
        "ReduceMean": average_pool,
    },
    qlinear={
        f"{MICROSOFT}.NhwcMaxPool": _channels_last,
        **{f"{MICROSOFT}.QLinear{name}": unary(name) for name in ("AveragePool", "GlobalAveragePool")},
    },
)
