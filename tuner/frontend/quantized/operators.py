"""Integer operators of a quantized graph that are no products: which nodes they stand for.

Every function here takes a node and says whether it has written what replaces it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from kernels.pool import Pool
from kernels.qadd import QAdd
from kernels.qconcat import QConcat
from kernels.qlookup import QLookup
from kernels.qmul import QMul
from kernels.qpairs import planes_of
from kernels.qpool import QPool
from kernels.quantization import Quantization
from tuner.backend.operators import pool_geometry
from tuner.frontend.quantized.lookup import evaluate, lookup_of
from tuner.frontend.quantized.nodes import BYTES, QuantizedTensor, quanta_range, quantized
from tuner.frontend.quantized.rewrite import Rewriting

MOVES = {
    *("DepthToSpace", "Expand", "Flatten", "Gather", "Pad", "Reshape", "Slice", "SpaceToDepth", "Split"),
    *("Squeeze", "Tile", "Transpose", "Unsqueeze"),
}
"""Operators that move elements and compute nothing."""


def quantize(rewriting: Rewriting, node: NodeProto) -> bool:
    """QuantizeLinear of a function of one quantized tensor: a table, or nothing at all."""
    out, real = quantized(rewriting.graph, node), node.input[0]
    if out is None:
        return False
    source = rewriting.known.get(real)
    if source is not None and source.quantization == out.quantization:
        rewriting.equate(out.name, source.name, node)
        return True
    found = lookup_of(rewriting.graph, rewriting.wiring, rewriting.known, real, out.quantization)
    if found is None:
        return False
    leaf, lookup = found
    like = rewriting.wiring.writers[real] if real != leaf else node
    rewriting.operator(lookup, [rewriting.known[leaf].name], out.name, like)
    return True


def add(rewriting: Rewriting, node: NodeProto) -> bool:
    """Add of two quantized tensors, or one and a constant, a clamp, QuantizeLinear."""
    return _pair(rewriting, node, QAdd)


def multiply(rewriting: Rewriting, node: NodeProto) -> bool:
    """The same of Mul. What is a function of one tensor, as x times its sigmoid, is left to be a table."""
    tail = rewriting.tail(node.output[0])
    if tail is None:
        return False
    graph, wiring, real = rewriting.graph, rewriting.wiring, tail.nodes[-1].input[0]
    if lookup_of(graph, wiring, rewriting.known, real, tail.out.quantization) is not None:
        return False
    return _pair(rewriting, node, QMul)


def _pair(rewriting: Rewriting, node: NodeProto, kind: type[QAdd] | type[QMul]) -> bool:
    """Two operands of one shape, or one of them a number for each of the other's planes."""
    tail = rewriting.tail(node.output[0])
    if tail is None or not any(name in rewriting.known for name in node.input):
        return False
    tail = rewriting.wanted(tail)
    shape = rewriting.graph.tensors[node.output[0]].shape
    operands = [_operand(rewriting, node, name) for name in node.input]
    first, second = operands
    if first is None or second is None:
        return False
    if rewriting.graph.tensors[first.name].shape != shape:
        first, second = second, first
    shapes = [rewriting.graph.tensors[operand.name].shape for operand in (first, second)]
    out = tail.out.quantization
    clamp = quanta_range(tail.clamp, out)
    if shapes[0] != shape:
        return False
    try:
        what = kind.of(shape, first.quantization, second.quantization, out, clamp, shapes[1])
    except ValueError:
        return False
    rewriting.operator(what, [first.name, second.name], tail.out.name, node)
    rewriting.take([node, *tail.nodes])
    rewriting.change(tail)
    return True


def _operand(rewriting: Rewriting, node: NodeProto, name: str) -> QuantizedTensor | None:
    """An operand of ``node`` with the shape of its result or of its planes; a constant is made so."""
    shape = rewriting.graph.tensors[node.output[0]].shape
    planes = planes_of(shape)
    constant = rewriting.constants.get(name)
    if constant is None:
        fits = rewriting.graph.tensors[name].shape in (shape, planes)
        return rewriting.known.get(name) if fits else None
    dtype = next((byte for byte in BYTES if byte == constant.quanta.dtype), None)
    if dtype is None or constant.scale.size > 1 or constant.quanta.size == 1:
        return None  # a number makes a function of one tensor
    if planes is not None and constant.quanta.shape[-2:] == (1, 1):
        shape = planes
    whole = np.ascontiguousarray(np.broadcast_to(constant.quanta, shape))
    made = rewriting.constant(f"{node.output[0]}/operand", whole)
    return QuantizedTensor(made, Quantization(dtype, float(constant.scale[0]), int(constant.zero[0])))


def max_pool(rewriting: Rewriting, node: NodeProto) -> bool:
    """MaxPool or GlobalMaxPool, which commutes with DequantizeLinear."""
    source, real = rewriting.known.get(node.input[0]), node.output[0]
    if source is None and rewriting.is_bytes(node.input[0]):
        # No quantization is needed to find the largest.
        name, dtype = node.input[0], rewriting.graph.tensors[node.input[0]].dtype
        source = QuantizedTensor(rewriting.source(name), _unit(dtype))
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
    shape, attributes = graph.tensors[node.input[0]].shape, _attributes(node)
    axes = attributes.get("axes")
    if len(node.input) > 1 and node.input[1] in graph.constants:
        axes = graph.constants[node.input[1]].reshape(-1).tolist()
    if len(shape) != 4 or axes is None or not attributes.get("keepdims", 1):
        return None
    if sorted(axis % 4 for axis in axes) != [2, 3]:
        return None
    return Pool("average", shape, (1, 1), (shape[2], shape[3]), (1, 1), (0, 0))


def concat(rewriting: Rewriting, node: NodeProto) -> bool:
    """Concat of quantized tensors, those of another scale requantized to the following QuantizeLinear's."""
    real = node.output[0]
    if not all(math.prod(rewriting.graph.tensors[name].shape) for name in node.input):
        return False
    if all(rewriting.is_bytes(name) for name in node.input):
        names = [rewriting.source(name) for name in node.input]
        unit = _unit(rewriting.graph.tensors[real].dtype)
        rewriting.operator(_concat(rewriting, node, unit), names, real, node)
        return True
    sources = [rewriting.known[name] for name in node.input if name in rewriting.known]
    if len(sources) < len(node.input):
        return False
    out = sources[0].quantization
    if any(source.quantization != out for source in sources):
        tail = rewriting.tail(real)
        if tail is None or tail.clamp is not None:
            return False
        out = tail.out.quantization
        names = [
            rewriting.requantized(source, name, out, node)
            for source, name in zip(sources, node.input, strict=True)
        ]
        rewriting.operator(_concat(rewriting, node, out), names, tail.out.name, node)
        rewriting.take([node, *tail.nodes])
        return True
    name = rewriting.bytes_like(f"{real}/bytes", real, out.dtype)
    rewriting.operator(_concat(rewriting, node, out), [source.name for source in sources], name, node)
    rewriting.known_as(real, QuantizedTensor(name, out), node)
    return True


def _concat(rewriting: Rewriting, node: NodeProto, out: Quantization) -> QConcat:
    shapes = tuple(rewriting.graph.tensors[name].shape for name in node.input)
    return QConcat(shapes, _attributes(node)["axis"] % len(shapes[0]), out.dtype)


def move(rewriting: Rewriting, node: NodeProto) -> bool:
    """A node of ``MOVES``, done with the bytes; what follows makes floats of its result."""
    source = rewriting.known.get(node.input[0])
    if source is None:
        return False
    inputs = [source.name, *(rewriting.source(name) for name in node.input[1:])]
    if node.op_type == "Pad":
        filled = _padding(rewriting, node, source.quantization)
        if filled is None:
            return False
        inputs[2:3] = [filled]
    dtype = source.quantization.dtype
    names = [rewriting.bytes_like(f"{real}/bytes", real, dtype) for real in node.output]
    moved = NodeProto()
    moved.CopyFrom(node)
    moved.input[:], moved.output[:] = inputs, names
    rewriting.nodes.append(moved)
    for name, real in zip(names, node.output, strict=True):
        rewriting.known_as(real, QuantizedTensor(name, source.quantization), node)
    return True


def _padding(rewriting: Rewriting, node: NodeProto, quantization: Quantization) -> str | None:
    """What a Pad fills in, in quanta, by its name; None where it is no number of the quantization's."""
    if len(node.input) < 2:
        return None
    given = node.input[2] if len(node.input) > 2 else ""
    value = rewriting.graph.constants.get(given) if given else np.zeros((), np.float32)
    if value is None:
        return None
    quanta = quantization.quanta(value)
    if np.any(quantization.real(quanta) != value):
        return None
    return rewriting.constant(f"{node.output[0]}/padding", quanta)


def byte_function(rewriting: Rewriting, node: NodeProto) -> bool:
    """Relu or Clip of bytes as they are."""
    name, out = node.input[0], node.output[0]
    if not rewriting.is_bytes(name) or any(each not in rewriting.graph.constants for each in node.input[1:]):
        return False
    quantization = _unit(rewriting.graph.tensors[name].dtype)
    values = evaluate(rewriting.graph, [node], {name: quantization.all_quanta()}, out)
    if values is None:
        return False
    shape = rewriting.graph.tensors[name].shape
    table = tuple(int(value) for value in values)
    what = QLookup(shape, quantization.dtype, quantization.dtype, table)
    rewriting.operator(what, [rewriting.source(name)], out, node)
    return True


def _unit(dtype: str) -> Quantization:
    """Bytes that stand for themselves."""
    return Quantization(next(byte for byte in BYTES if byte == dtype), 1.0)


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}
