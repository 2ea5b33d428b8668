"""Convolutions and matrix products of TFLite in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tflite

from compiler.ir.checks import ModelError
from compiler.readers.tflite.file import Array, Operator, Tensor
from compiler.readers.tflite.padded import Border
from compiler.readers.tflite.writer import FILE, NCHW, Writer

_FUSED: dict[int, str] = {
    code: name for name, code in vars(tflite.ActivationFunctionType).items() if name.isupper()
}


def convolution(writer: Writer, op: Operator) -> None:
    """CONV_2D, its groups given by the weights' channels, and DEPTHWISE_CONV_2D."""
    data, weights = operand(writer, op, 0), operand(writer, op, 1)
    shape, filters = writer.tensor(data).shape, writer.tensor(weights).shape
    if len(shape) != 4 or len(filters) != 4:
        raise ModelError(f"its data is {list(shape)} and its weights are {list(filters)}, not of rank 4")
    depthwise = op.kind == "DEPTHWISE_CONV_2D"
    # (1, rows, columns, filter) of depthwise weights, else (filter, rows, columns, channel).
    axis = 3 if depthwise else 0
    perm = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
    channels = 1 if depthwise else filters[3]
    if (depthwise and filters[0] != 1) or not channels or shape[3] % channels or not filters[axis]:
        raise ModelError(f"its weights {list(filters)} do not fit data of {list(shape)}")
    groups = shape[3] // channels
    if filters[axis] % groups:
        raise ModelError(f"its {filters[axis]} filters are no multiple of {groups} groups")
    options = op.options
    stride = options.StrideH(), options.StrideW()
    dilation = options.DilationHFactor(), options.DilationWFactor()
    kernel = filters[1:3]
    border, out = window(op, shape[1:3], kernel, stride, dilation)
    source, extra = writer.padded.source(data)
    if not np.any(border):
        data, border = source, extra
    attributes = {
        "kernel_shape": kernel,
        "strides": stride,
        "dilations": dilation,
        "pads": pads(border),
        "group": groups,
    }
    inputs = _weights_and_bias(writer, op, data, axis, perm)
    steps = [("Conv", inputs, attributes)]
    first = writer.real(data, NCHW)
    writer.compute(op, first, steps, (shape[0], *out, filters[axis]), fused(options))


def fully_connected(writer: Writer, op: Operator) -> None:
    """FULLY_CONNECTED: the data as a matrix by the transposed weights."""
    data, weights = operand(writer, op, 0), operand(writer, op, 1)
    shape, filters = writer.tensor(data).shape, writer.tensor(weights).shape
    if op.options.WeightsFormat() != tflite.FullyConnectedOptionsWeightsFormat.DEFAULT:
        raise ModelError("its weights are shuffled, which is not supported")
    size = writer.tensor(data).size
    if len(filters) != 2 or not size or size % filters[1]:
        raise ModelError(f"its weights {list(filters)} do not fit data of {list(shape)}")
    rows = size // filters[1]
    matrix = writer.flat(data)
    if shape != (rows, filters[1]):
        name = writer.nodes.name(f"{writer.label(data)}/matrix")
        matrix = writer.nodes.chain(matrix, [writer.reshape((rows, filters[1]))], name, name)
    inputs = _weights_and_bias(writer, op, data, 0, (0, 1))
    result = writer.tensor(op.outputs[0]).shape if op.outputs else ()
    kept = (*shape[:-1], filters[0])
    index = writer.result(op, kept if result == kept else (rows, filters[0]))
    steps = writer.finished(index, [("Gemm", inputs, {"transB": 1})], fused(op.options))
    first = writer.dequantized(matrix, data)
    if result == (rows, filters[0]):
        writer.write(index, writer.order(index), first, steps)
    else:
        writer.put_flat(index, first, steps)


def operand(writer: Writer, op: Operator, position: int) -> int:
    """The number of the tensor that ``op`` reads at ``position``; raises ModelError if there is none."""
    if position >= len(op.inputs) or op.inputs[position] < 0:
        raise ModelError(f"its input {position} is missing")
    return op.inputs[position]


def fused(options: Any) -> str:
    """The name of the activation that an operator's options fuse into it; most operators have none."""
    if not hasattr(options, "FusedActivationFunction"):
        return "NONE"
    number: int = options.FusedActivationFunction()
    return _FUSED.get(number, f"number {number}")


def window(
    op: Operator,
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int] = (1, 1),
) -> tuple[Border, tuple[int, ...]]:
    """The border that the padding of ``op`` means for a plane of ``size``, and the size of the result."""
    if min(*kernel, *stride, *dilation) < 1 or min(size) < 1:
        raise ModelError(
            f"it has windows of {list(kernel)} with strides {list(stride)} and dilations {list(dilation)} "
            f"on a plane of {list(size)}"
        )
    padding = op.options.Padding()
    if padding not in (tflite.Padding.SAME, tflite.Padding.VALID):
        raise ModelError(f"its padding {padding} is not known")
    borders, out = [], []
    for extent, taps, step, spread in zip(size, kernel, stride, dilation, strict=True):
        reach = (taps - 1) * spread + 1
        count = -(-extent // step) if padding == tflite.Padding.SAME else (extent - reach) // step + 1
        if count < 1:
            raise ModelError(f"its windows of {list(kernel)} are larger than its plane of {list(size)}")
        # What is odd goes to the bottom and the right.
        total = max(0, (count - 1) * step + reach - extent)
        borders.append((total // 2, total - total // 2))
        out.append(count)
    return (borders[0], borders[1]), tuple(out)


def pads(border: Border) -> tuple[int, int, int, int]:
    """A border as ONNX writes it."""
    (top, bottom), (left, right) = border
    return top, left, bottom, right


def _weights_and_bias(writer: Writer, op: Operator, data: int, axis: int, perm: tuple[int, ...]) -> list[str]:
    """The names of the weights, their axes permuted, and of the bias if there is one, as real numbers.

    ``axis`` is that of the filters in the file, which comes first in ONNX. Weights of 8 bits stay so where
    the data has 8 bits as well.
    """
    index = operand(writer, op, 1)
    tensor, values = writer.tensor(index), writer.constant(index)
    if values is None:
        raise ModelError(f"its weights {tensor.name!r} are computed, not constant")
    bias = op.inputs[2] if len(op.inputs) > 2 and op.inputs[2] >= 0 else None
    if not (tensor.quantized and writer.tensor(data).quantized):
        names = [_real_weights(writer, index, values, perm)]
        return names if bias is None else [*names, real_bias(writer, bias, values.shape[axis])]
    scale, zero = tensor.scale_and_zero()
    if scale.ndim and tensor.axis != axis:
        raise ModelError(
            f"its weights have scales along axis {tensor.axis}, where filters are on axis {axis}"
        )
    stored = writer.nodes.constant(writer.label(index), values.transpose(perm))
    names = [writer.dequantize(stored, scale, zero, axis=0)]
    if bias is not None:
        # The sum's scale by definition, whatever the file says of the bias.
        sum_scale = writer.scale_and_zero(data)[0] * scale
        names.append(_quantized_bias(writer, bias, sum_scale, values.shape[axis]))
    return names


def _real_weights(writer: Writer, index: int, values: Array, perm: tuple[int, ...]) -> str:
    """The weights ``values`` as real numbers, their axes permuted, for data of floats.

    A matrix of int8 is dequantized by a node, as products of few rows keep such weights as they are.
    """
    tensor, label = writer.tensor(index), writer.label(index)
    if tensor.quantized and values.dtype == np.int8 and values.ndim == 2:
        scale, zero = tensor.scale_and_zero()
        if not scale.ndim or tensor.axis == 0:
            return writer.dequantize(writer.nodes.constant(label, values), scale, zero, axis=0)
    return writer.nodes.constant(label, real_values(tensor, values).transpose(perm))


def _quantized_bias(writer: Writer, index: int, scale: Array, filters: int) -> str:
    values = _bias(writer, index, filters)
    if values.dtype != np.int32:
        raise ModelError(f"its bias {writer.label(index)!r} is of {values.dtype} instead of int32")
    stored = writer.nodes.constant(writer.label(index), values)
    return writer.dequantize(stored, scale.astype(np.float32), np.zeros(scale.shape, np.int32))


def real_bias(writer: Writer, index: int, filters: int) -> str:
    """The name of the constant bias of so many filters, as real numbers."""
    values = real_values(writer.tensor(index), _bias(writer, index, filters))
    return writer.nodes.constant(writer.label(index), values)


def _bias(writer: Writer, index: int, filters: int) -> Array:
    values = writer.constant(index)
    if values is None:
        raise ModelError(f"its bias {writer.label(index)!r} is computed, not constant")
    if values.size != filters:
        raise ModelError(f"its bias has {values.size} values for {filters} filters")
    return values.reshape(filters)


def real_values(tensor: Tensor, values: Array) -> Array:
    """The real numbers, float32, that a constant's ``values`` stand for."""
    if values.dtype.kind == "f":
        return values.astype(np.float32)
    scale, zero = tensor.scale_and_zero()
    shape = [-1 if axis == tensor.axis else 1 for axis in range(values.ndim)] if scale.ndim else []
    return (values.astype(np.float32) - zero.reshape(shape).astype(np.float32)) * scale.reshape(shape)


def batched(writer: Writer, op: Operator) -> None:
    """BATCH_MATMUL of two tensors in the file's order, either one transposed."""
    names, shapes = [], []
    for place, turned in enumerate((op.options.AdjX(), op.options.AdjY())):
        index = operand(writer, op, place)
        shape, name = writer.tensor(index).shape, writer.real(index, FILE)
        if len(shape) < 2:
            raise ModelError(f"its operand {list(shape)} is no matrix")
        if turned:
            perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
            shape = tuple(shape[axis] for axis in perm)
            label = writer.nodes.name(f"{op.name}/turned")
            name = writer.nodes.chain(name, [("Transpose", [], {"perm": perm})], label, label)
        names.append(name)
        shapes.append(shape)
    (first, second) = shapes
    try:
        batch = np.broadcast_shapes(first[:-2], second[:-2])
    except ValueError:
        batch = None
    if batch is None or first[-1] != second[-2]:
        raise ModelError(f"its operands {list(first)} and {list(second)} do not fit together")
    index = writer.result(op, (*batch, first[-2], second[-1]))
    steps = writer.finished(index, [("MatMul", names[1:], {})], "NONE")
    writer.write(index, FILE, names[0], steps)
