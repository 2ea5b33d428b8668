"""Sums, means and the like of TFLite in ONNX."""

from __future__ import annotations

import numpy as np
from onnx import helper

from compiler.ir.checks import ModelError
from compiler.readers.tflite.file import Operator
from compiler.readers.tflite.nodes import Step
from compiler.readers.tflite.operands import axis_of, numbers
from compiler.readers.tflite.products import fused, operand
from compiler.readers.tflite.writer import FILE, NCHW, Writer

LEAST_NORM = 1e-6
"""What LiteRT takes a sum of squares for at least."""


def reduction(writer: Writer, op: Operator, onnx: str) -> None:
    """MEAN, SUM and the like; a mean over the plane of an image is a global average pool."""
    data = operand(writer, op, 0)
    shape = writer.tensor(data).shape
    axes = sorted({axis_of(int(axis), len(shape)) for axis in numbers(writer, op, 1).reshape(-1)})
    keep = bool(op.options.KeepDims())
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    left = tuple(extent for axis, extent in enumerate(shape) if axis not in axes)
    index = writer.result(op, kept if keep else left)
    order = FILE
    if onnx == "ReduceMean" and len(shape) == 4 and axes == [1, 2]:
        order = NCHW
        step: Step = ("GlobalAveragePool", [], {})
    elif onnx == "ReduceSum":
        step = (onnx, [writer.nodes.constant(f"{op.name}/axes", np.asarray(axes, np.int64))], {"keepdims": 1})
    else:
        step = (onnx, [], {"axes": axes, "keepdims": 1})
    first, steps = writer.real(data, order), writer.finished(index, [step], "NONE")
    if keep:
        writer.write(index, order, first, steps)
    else:
        writer.put_flat(index, first, steps)


def softmax(writer: Writer, op: Operator) -> None:
    """SOFTMAX and LOG_SOFTMAX over the last axis of the file's order."""
    data, beta = operand(writer, op, 0), 1.0 if op.options is None else op.options.Beta()
    shape = writer.tensor(data).shape
    kind = "Softmax" if op.kind == "SOFTMAX" else "LogSoftmax"
    steps: list[Step] = [(kind, [], {"axis": 1 if len(shape) == 4 else -1})]
    if beta != 1.0:
        factor = writer.nodes.constant(f"{op.name}/beta", np.asarray(beta, np.float32))
        steps.insert(0, ("Mul", [factor], {}))
    writer.compute(op, writer.real(data), steps, shape)


def normalization(writer: Writer, op: Operator) -> None:
    """L2_NORMALIZATION along the last axis of the file's order."""
    data = operand(writer, op, 0)
    shape, first = writer.tensor(data).shape, writer.real(data)
    if not shape:
        raise ModelError("its data is a scalar")
    norm = writer.nodes.name(f"{op.name}/norm")
    axis = 1 if len(shape) == 4 else -1
    least = writer.nodes.constant(f"{op.name}/least", np.asarray(LEAST_NORM**0.5, np.float32))
    steps: list[Step] = [("ReduceL2", [], {"axes": [axis], "keepdims": 1}), ("Max", [least], {})]
    writer.nodes.chain(first, steps, norm, norm)
    writer.compute(op, first, [("Div", [norm], {})], shape, fused(op.options))


def position(writer: Writer, op: Operator, onnx: str) -> None:
    """ARG_MAX and ARG_MIN along a constant axis."""
    data = operand(writer, op, 0)
    shape = writer.tensor(data).shape
    axis = axis_of(int(numbers(writer, op, 1).reshape(-1)[0]), len(shape))
    index = writer.result(op, [extent for place, extent in enumerate(shape) if place != axis])
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(writer.tensor(index).dtype))
    steps: list[Step] = [(onnx, [], {"axis": axis, "keepdims": 0}), ("Cast", [], {"to": kind})]
    writer.write(index, FILE, writer.real(data, FILE), steps)


def running_sum(writer: Writer, op: Operator) -> None:
    """CUMSUM along a constant axis."""
    data = operand(writer, op, 0)
    shape = writer.tensor(data).shape
    axis = axis_of(int(numbers(writer, op, 1).reshape(-1)[0]), len(shape))
    name = writer.nodes.constant(f"{op.name}/axis", np.asarray(axis, np.int64))
    attributes = {"exclusive": int(op.options.Exclusive()), "reverse": int(op.options.Reverse())}
    index = writer.result(op, shape)
    steps = writer.finished(index, [("CumSum", [name], attributes)], "NONE")
    writer.write(index, FILE, writer.real(data, FILE), steps)
