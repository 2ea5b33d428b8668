"""Products that no kernel computes, in operators that TVM lowers: right, and slow."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, te, tirx

from compiler.ir.partition import Product
from compiler.lower.operators.constants import constant
from kernels.workload.base import Activation, Conv2d, Gemm
from kernels.workload.qconv2d import QConv2d


def lowered_product(builder: Any, product: Product, data: Any, *others: Any) -> Any:
    """A product by constants in Relax operators; of bytes, to the last bit, as ``kernels.int8.reference``.

    ``others`` are the residual, or the scalars, that come with ``data``.
    """
    workload = product.workload
    if isinstance(workload, QConv2d):
        constants = [*map(constant, product.constants), *others]
        hint = "quantized_product"
        return builder.call_te(quantized_compute(workload), data, *constants, primfunc_name_hint=hint)
    assert isinstance(workload, Conv2d | Gemm)  # of activations a kernel of ours computes all
    weights = constant(product.weights())
    if isinstance(workload, Conv2d):
        value = relax.op.nn.conv2d(
            data, weights, list(workload.stride), list(workload.pad), list(workload.dilation), workload.groups
        )
    else:
        value = relax.op.matmul(data, weights)
    bias, slope = (None if each is None else constant(each) for each in (product.bias, product.slope))
    return finished(workload, value, bias, slope, *(others or (None,)))


def finished(workload: Conv2d | Gemm, value: Any, bias: Any, slope: Any, residual: Any) -> Any:
    """``value``, a bare product, with its epilogue; None for what that lacks. Biases and slopes are 1-D."""
    epilogue, axis = workload.epilogue, 1 if isinstance(workload, Conv2d) else -1
    if bias is not None:
        shape = (1, -1, 1, 1) if isinstance(workload, Conv2d) else (1, -1)
        value = relax.op.add(value, relax.op.reshape(bias, shape))
    if residual is not None and not epilogue.late:
        value = relax.op.add(value, residual)
    if epilogue.activation is not None:
        value = _activated(epilogue.activation, value, slope, axis)
    if epilogue.late:
        value = relax.op.add(value, residual)
    low, high = epilogue.clamp or (None, None)
    if low is not None:
        value = relax.op.maximum(value, relax.const(low, "float32"))
    if high is not None:
        value = relax.op.minimum(value, relax.const(high, "float32"))
    return value


def _activated(activation: Activation, x: Any, slope: Any, axis: int) -> Any:
    """``activation`` of ``x`` in Relax operators; ``slope`` is that of ``prelu`` along ``axis``."""
    op = relax.op
    alpha, beta = (relax.const(each or 0.0, "float32") for each in (activation.alpha, activation.beta))
    one, zero = relax.const(1.0, "float32"), relax.const(0.0, "float32")
    hard = op.minimum(op.maximum(op.add(op.multiply(x, alpha), beta), zero), one)
    softplus = op.add(op.nn.relu(x), op.log(op.add(op.exp(op.negative(op.abs(x))), one)))
    below = op.minimum(x, zero)
    return {
        "silu": lambda: op.multiply(x, op.sigmoid(op.multiply(x, alpha))),
        "hard_swish": lambda: op.multiply(x, hard),
        "hard_sigmoid": lambda: hard,
        "sigmoid": lambda: op.sigmoid(x),
        "tanh": lambda: op.tanh(x),
        "gelu": lambda: op.nn.gelu(x),
        "tanh_gelu": lambda: op.nn.gelu_tanh(x),
        "mish": lambda: op.multiply(x, op.tanh(softplus)),
        "softplus": lambda: softplus,
        "elu": lambda: op.add(op.nn.relu(x), op.multiply(alpha, op.subtract(op.exp(below), one))),
        "leaky_relu": lambda: op.add(op.nn.relu(x), op.multiply(alpha, below)),
        "prelu": lambda: op.nn.prelu(x, slope, axis),
    }[activation.kind]()


def quantized_compute(conv: QConv2d) -> Any:
    """A function of tensors: data, weights, bias and the rest of ``kernels.int8.reference.input_shapes``."""
    top, left, bottom, right = conv.pad
    depth, filters = conv.in_c // conv.groups, conv.out_c // conv.groups

    def compute(data: Any, weights: Any, bias: Any, *scale: Any) -> Any:
        zero = scale[3]().astype("int32") if conv.is_dynamic else conv.data_zero

        def padded(n: Any, y: Any, x: Any, c: Any) -> Any:
            row, column = y - top, x - left
            inside = tvm.tirx.all(row >= 0, row < conv.in_h, column >= 0, column < conv.in_w)
            value = data[n, row, column, c].astype("int32") - zero
            return tirx.if_then_else(inside, value, tirx.const(0, "int32"))

        whole = (conv.n, conv.in_h + top + bottom, conv.in_w + left + right, conv.in_c)
        image = te.compute(whole, padded, name="padded")
        taps = [te.reduce_axis((0, extent)) for extent in (conv.kh, conv.kw, depth)]

        def total(n: Any, y: Any, x: Any, f: Any) -> Any:
            i, j, c = taps
            row, column = y * conv.stride[0] + i * conv.dilation[0], x * conv.stride[1] + j * conv.dilation[1]
            value = image[n, row, column, f // filters * depth + c]
            return te.sum(value * (weights[i, j, c, f].astype("int32") - conv.weight_zero), axis=taps)

        sums = te.compute(conv.out_shape, total, name="sums")

        def finished(n: Any, y: Any, x: Any, f: Any) -> Any:
            value = sums[n, y, x, f] + bias[f]
            if not scale:
                return value
            if conv.is_dynamic:
                unit, addend, step, _ = scale
                return value.astype("float32") * (step() * unit[f]) + addend[f]
            multiplier, shift = (each[f if conv.per_channel else 0].astype("int64") for each in scale)
            by = shift + tirx.const(31, "int64")
            half = tirx.shift_right(tirx.shift_left(tirx.const(1, "int64"), by), tirx.const(1, "int64"))
            value = tirx.shift_right(value.astype("int64") * multiplier + half, by) + conv.out_zero
            low, high = (tirx.const(limit, "int64") for limit in conv.out_range)
            return te.max(te.min(value, high), low).astype(conv.out_dtype)

        return te.compute(conv.out_shape, finished, name="result")

    return compute
