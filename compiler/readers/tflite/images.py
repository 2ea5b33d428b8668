"""Windows over images of TFLite in ONNX: pools, resizing, transposed convolutions, blocks of pixels."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tflite

from compiler.ir.checks import ModelError
from compiler.readers.tflite import nearest
from compiler.readers.tflite.file import Operator
from compiler.readers.tflite.nodes import Step
from compiler.readers.tflite.operands import image
from compiler.readers.tflite.products import fused, operand, pads, real_bias, real_values, window
from compiler.readers.tflite.writer import NCHW, Writer

POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "AVERAGE_POOL_2D": ("AveragePool", {"count_include_pad": 0}),
    "MAX_POOL_2D": ("MaxPool", {}),
}
TRANSPOSED_WITH_BIAS = "CUSTOM 'Convolution2DTransposeBias'"
"""MediaPipe's transposed convolution; its options are C integers: padding (1 is SAME), strides."""
CUSTOM_SAME = 1


def pool(writer: Writer, op: Operator) -> None:
    """AVERAGE_POOL_2D and MAX_POOL_2D; what lies outside of the plane does not count."""
    data, options = operand(writer, op, 0), op.options
    shape = image(writer, data)
    kernel = options.FilterHeight(), options.FilterWidth()
    stride = options.StrideH(), options.StrideW()
    border, out = window(op, shape[1:3], kernel, stride)
    kind, attributes = POOLS[op.kind]
    attributes = {**attributes, "kernel_shape": kernel, "strides": stride, "pads": pads(border)}
    step: Step = (kind, [], attributes)
    writer.compute(op, writer.real(data), [step], (shape[0], *out, shape[3]), fused(options))


def resize(writer: Writer, op: Operator, mode: str) -> None:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR to the size that the file says of the result."""
    data, options = operand(writer, op, 0), op.options
    shape = image(writer, data)
    out = writer.tensor(op.outputs[0]).shape[1:3] if op.outputs else ()
    if len(out) != 2 or min(*out, *shape) < 1:
        raise ModelError(f"it makes {list(out)} of {list(shape)}")
    align, half = options.AlignCorners(), options.HalfPixelCenters()
    result = (shape[0], *out, shape[3])
    if mode == "nearest" and not all(
        nearest.is_resize(*extents, align, half) for extents in zip(shape[1:3], out, strict=True)
    ):
        places = [nearest.taken(*extents, align, half) for extents in zip(shape[1:3], out, strict=True)]
        gathers: list[Step] = [
            ("Gather", [writer.nodes.constant(f"{op.name}/places", each)], {"axis": axis})
            for axis, each in enumerate(places, 2)
        ]
        writer.compute(op, writer.real(data), gathers, result)
        return
    coordinates = "align_corners" if align else "half_pixel" if half else "asymmetric"
    rounded = "round_prefer_ceil" if align or half else "floor"
    sizes = writer.nodes.constant(f"{op.name}/sizes", np.asarray((shape[0], shape[3], *out), np.int64))
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounded}
    step: Step = ("Resize", ["", "", sizes], attributes)
    writer.compute(op, writer.real(data), [step], result)


def blocks(writer: Writer, op: Operator, onnx: str) -> None:
    """DEPTH_TO_SPACE and SPACE_TO_DEPTH."""
    data, size = operand(writer, op, 0), op.options.BlockSize()
    n, rows, columns, channels = image(writer, data)
    if size < 1:
        raise ModelError(f"its blocks have the size {size}")
    if onnx == "DepthToSpace":
        shape = (n, rows * size, columns * size, channels // size**2)
    else:
        shape = (n, rows // size, columns // size, channels * size**2)
    writer.compute(op, writer.real(data), [(onnx, [], {"blocksize": size})], shape)


def transposed(writer: Writer, op: Operator) -> None:
    """TRANSPOSE_CONV: the result's shape, weights, data, perhaps a bias."""
    options = op.options
    operands = (operand(writer, op, 2), operand(writer, op, 1), *op.inputs[3:4])
    same = options.Padding() == tflite.Padding.SAME
    stride = options.StrideH(), options.StrideW()
    _transposed(writer, replace(op, inputs=operands), same, stride, fused(options))


def transposed_with_bias(writer: Writer, op: Operator) -> None:
    """MediaPipe's: data, weights, bias."""
    if op.options is None or len(op.options) < 12:
        raise ModelError("its options are not there")
    padding, columns, rows = struct.unpack("<3i", bytes(op.options[:12]))
    _transposed(writer, op, padding == CUSTOM_SAME, (rows, columns), "NONE")


def _transposed(writer: Writer, op: Operator, same: bool, stride: Sequence[int], activation: str) -> None:
    data, index = operand(writer, op, 0), operand(writer, op, 1)
    shape, tensor, values = image(writer, data), writer.tensor(index), writer.constant(index)
    out = writer.tensor(op.outputs[0]).shape if op.outputs else ()
    if values is None or values.ndim != 4 or values.shape[3] != shape[3]:
        raise ModelError(f"its weights {list(tensor.shape)} are no constant that fits data of {list(shape)}")
    if len(out) != 4 or min(*stride, *shape, *values.shape) < 1:
        raise ModelError(f"it makes {list(out)} of {list(shape)} with strides {list(stride)}")
    before, after, more = [], [], []
    for have, want, taps, step in zip(shape[1:3], out[1:3], values.shape[1:3], stride, strict=True):
        whole = (have - 1) * step + taps
        total = max(0, whole - want) if same else 0
        if not 0 <= want - (whole - total) < max(step, 2):
            raise ModelError(f"its result {list(out)} does not fit data of {list(shape)}")
        before.append(total // 2)
        after.append(total - total // 2)
        more.append(want - (whole - total))
    weights = real_values(tensor, values).transpose(3, 0, 1, 2)
    inputs = [writer.nodes.constant(writer.label(index), weights)]
    if len(op.inputs) > 2 and op.inputs[2] >= 0:
        inputs.append(real_bias(writer, op.inputs[2], values.shape[0]))
    attributes = {
        "kernel_shape": values.shape[1:3],
        "strides": stride,
        "pads": (*before, *after),
        "output_padding": more,
    }
    result = (shape[0], *out[1:3], values.shape[0])
    writer.compute(op, writer.real(data, NCHW), [("ConvTranspose", inputs, attributes)], result, activation)
