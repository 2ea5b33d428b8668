"""Activations with parameters for which their usual forms are not what ONNX says.

Those compute both sides of zero and add them, so that 0 by an infinity makes NaN, or leave out a product with
0, which is NaN of NaN.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from onnx import TensorProto

from compiler.passes.legalize.writer import Writer

WIDEST = 1e-2
"""A Celu with a smaller alpha is computed as it is defined: x / alpha may be infinite."""


def leaky(writer: Writer) -> bool:
    """LeakyRelu by 0, NaN or an infinity."""
    alpha = writer.attributes.get("alpha", 0.01)
    if alpha and isfinite(alpha):
        return False
    (data,) = writer.node.input
    writer.finish("Where", _negative(writer), writer.add("Mul", data, _number(writer, alpha)), data)
    return True


def prelu(writer: Writer) -> bool:
    """PRelu by slopes that are not known, or are NaN or infinite."""
    slope = writer.value(1)
    if slope is not None and np.isfinite(slope).all():
        return False
    data, by = writer.node.input
    if np.dtype(writer.info(0).dtype).kind != "f":
        return False
    writer.finish("Where", _negative(writer), writer.add("Mul", data, by), data)
    return True


def elu(writer: Writer) -> bool:
    """Elu with an alpha that is no number."""
    alpha = writer.attributes.get("alpha", 1.0)
    if isfinite(alpha):
        return False
    writer.finish("Where", _negative(writer), _grown(writer, alpha), writer.node.input[0])
    return True


def selu(writer: Writer) -> bool:
    """Selu with an alpha that is no number, or a gamma of 0."""
    alpha, gamma = writer.attributes.get("alpha", 1.67326), writer.attributes.get("gamma", 1.0507)
    if isfinite(alpha) and gamma and isfinite(gamma):
        return False
    data = writer.node.input[0]
    above = writer.add("Greater", data, _number(writer, 0))
    made = writer.add("Where", above, data, _grown(writer, alpha))
    writer.finish("Mul", made, _number(writer, gamma))
    return True


def celu(writer: Writer) -> bool:
    """Celu with an alpha that is not above zero, or next to nothing."""
    alpha = writer.attributes.get("alpha", 1.0)
    if isfinite(alpha) and alpha >= WIDEST:
        return False
    (data,) = writer.node.input
    zero, by = _number(writer, 0), _number(writer, alpha)
    less = writer.add("Sub", writer.add("Exp", writer.add("Div", data, by)), _number(writer, 1))
    below = writer.add("Min", zero, writer.add("Mul", by, less))
    writer.finish("Add", writer.add("Max", zero, data), below)
    return True


def hard_sigmoid(writer: Writer) -> bool:
    """HardSigmoid with an alpha of 0."""
    alpha, beta = writer.attributes.get("alpha", 0.2), writer.attributes.get("beta", 0.5)
    if alpha:
        return False
    (data,) = writer.node.input
    line = writer.add("Add", writer.add("Mul", data, _number(writer, alpha)), _number(writer, beta))
    writer.finish("Clip", line, _number(writer, 0), _number(writer, 1))
    return True


def shrink(writer: Writer) -> bool:
    """Shrink with a lambda below zero, where numbers are on both sides, and of integers, which onnxruntime
    compares and moves as floats."""
    limit, bias = writer.attributes.get("lambd", 0.5), writer.attributes.get("bias", 0.0)
    info, is_whole = writer.info(0), np.dtype(writer.info(0).dtype).kind in "iu"
    if limit >= 0 and not is_whole:
        return False
    (data,) = writer.node.input
    kind = np.dtype(np.float32 if is_whole else info.dtype)
    if is_whole:
        data = writer.add("Cast", data, to=TensorProto.FLOAT)

    def number(value: float) -> str:
        return writer.constant(np.array(value, kind))

    above, below = writer.add("Greater", data, number(limit)), writer.add("Less", data, number(-limit))
    most = writer.add("Where", above, writer.add("Sub", data, number(bias)), number(0))
    made = [below, writer.add("Add", data, number(bias)), most]
    if is_whole:
        writer.finish("Cast", writer.add("Where", *made), to=info.elem_type)
    else:
        writer.finish("Where", *made)
    return True


def _grown(writer: Writer, alpha: float) -> str:
    """``alpha`` times what the exponential of the data is above 1."""
    less = writer.add("Sub", writer.add("Exp", writer.node.input[0]), _number(writer, 1))
    return writer.add("Mul", _number(writer, alpha), less)


def _negative(writer: Writer) -> str:
    return writer.add("Less", writer.node.input[0], _number(writer, 0))


def _number(writer: Writer, value: float) -> str:
    """A constant; of an axis where the data have one, as TVM sets in 0 for products with a number 0."""
    info = writer.info(0)
    return writer.constant(np.full((1,) * min(1, len(info.shape)), value, info.dtype))
