"""Data that a model computes, in blocks of a scale each: TVM knows only constants in blocks."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from compiler.passes.legalize.writer import Writer

WIDEST = 2
"""Bytes of an integer that float32 holds with its scale's zero point."""


def quantized(writer: Writer) -> bool:
    """QuantizeLinear: quotients round before the zero point is added, and then fit the type."""
    if not writer.attributes.get("block_size"):
        return False
    output = writer.graph.tensors[writer.node.output[0]]
    _refuse_wide(writer, output.dtype)
    ratio = writer.add("Round", writer.add("Div", _floats(writer, writer.node.input[0]), _each(writer, 1)))
    if writer.has(2):
        ratio = writer.add("Add", ratio, _each(writer, 2))
    zero = writer.constant(np.zeros((), output.dtype))
    writer.finish("QuantizeLinear", ratio, writer.constant(np.ones((), np.float32)), zero)
    return True


def dequantized(writer: Writer) -> bool:
    """DequantizeLinear of data that are computed. Constants stay: they may be weights of few bits."""
    if not writer.attributes.get("block_size") or writer.value(0) is not None:
        return False
    _refuse_wide(writer, writer.info(0).dtype)
    data = _floats(writer, writer.node.input[0])
    if writer.has(2):
        data = writer.add("Sub", data, _each(writer, 2))
    product = writer.add("Mul", data, _each(writer, 1))
    writer.finish("Cast", product, to=writer.graph.tensors[writer.node.output[0]].elem_type)
    return True


def _each(writer: Writer, place: int) -> str:
    """An operand of a number for each block as float32, one for each of the data."""
    axis, block = writer.attributes.get("axis", 1), writer.attributes["block_size"]
    extent, shape = writer.info(0).shape[axis], writer.info(place).shape
    if extent > block * shape[axis]:
        writer.refuse(
            f"has scales or zero points of {list(shape)}, too few for {extent} elements along axis {axis} "
            f"in blocks of {block}"
        )
    blocks = writer.constant(np.arange(extent) // block)
    return writer.add("Gather", _floats(writer, writer.node.input[place]), blocks, axis=axis)


def _floats(writer: Writer, name: str) -> str:
    if writer.graph.tensors[name].dtype == "float32":
        return name
    return writer.add("Cast", name, to=TensorProto.FLOAT)


def _refuse_wide(writer: Writer, dtype: str) -> None:
    if np.dtype(dtype).kind not in "iu" or np.dtype(dtype).itemsize > WIDEST:
        writer.refuse(f"has blocks of {dtype}; integers of 8 and 16 bits are computed")
