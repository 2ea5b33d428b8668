"""Sums and products of two quantized tensors: which operands meet, and where the result goes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import NodeProto

from compiler.passes.quantize.nodes import BYTES, QuantizedTensor, quanta_range
from compiler.passes.quantize.rewriting import Rewriting
from kernels.int8.quantization import Quantization
from kernels.operators.int8.base import QOperator
from kernels.operators.int8.pairs import planes_of


def pair(rewriting: Rewriting, node: NodeProto, make: Callable[..., QOperator]) -> bool:
    """``make`` of two operands of one shape, or one of them a number for each of the other's planes.

    A constant is one of them, a clamp and QuantizeLinear follow.
    """
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
        what = make(shape, first.quantization, second.quantization, out, clamp, shapes[1])
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
    if dtype is None or constant.scale.size > 1 or constant.quanta.size == 1 or not constant.scale[0]:
        return None  # a number makes a function of one tensor
    if planes is not None and constant.quanta.shape[-2:] == (1, 1):
        shape = planes
    whole = np.ascontiguousarray(np.broadcast_to(constant.quanta, shape))
    made = rewriting.graph.constant(f"{node.output[0]}/operand", whole)
    return QuantizedTensor(made, Quantization(dtype, float(constant.scale[0]), int(constant.zero[0])))
