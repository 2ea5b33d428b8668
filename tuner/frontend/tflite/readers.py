"""How each operator of TFLite is read: what it is in ONNX, by ``READERS``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import defs

from tuner.frontend.onnx_check import ModelError
from tuner.frontend.quantized.operators import TFLITE
from tuner.frontend.tflite.file import Array, Operator
from tuner.frontend.tflite.nodes import Step
from tuner.frontend.tflite.products import (
    convolution,
    fully_connected,
    fused,
    operand,
    pads,
    real_values,
    window,
)
from tuner.frontend.tflite.writer import FILE, NCHW, TO_NCHW, Writer

Reader = Callable[[Writer, Operator], None]
CLAMPS = ("RELU", "RELU6", "RELU_N1_TO_1")
POOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "AVERAGE_POOL_2D": ("AveragePool", {"count_include_pad": 0}),
    "MAX_POOL_2D": ("MaxPool", {}),
}


def elementwise(onnx: str) -> Reader:
    """What reads an operator that is ``onnx`` in ONNX and has one operand or two."""
    operands = defs.get_schema(onnx).min_input
    return partial(binary, onnx=onnx) if operands == 2 else partial(unary, steps=[(onnx, [], {})])


def unary(writer: Writer, op: Operator, steps: Sequence[Step] = ()) -> None:
    """A function of each element: ``steps``, or just a clamp or another quantization."""
    data = operand(writer, op, 0)
    clamp = op.kind if op.kind in CLAMPS else "NONE"
    writer.compute(op, writer.real(data), steps, writer.tensor(data).shape, clamp)


def dequantize(writer: Writer, op: Operator) -> None:
    """DEQUANTIZE; of a constant, as in models with weights of 16 bits, it is another constant."""
    data = operand(writer, op, 0)
    tensor, values = writer.tensor(data), writer.constant(data)
    if values is None:
        writer.compute(op, writer.real(data), [], tensor.shape)
    else:
        writer.hold(writer.result(op, tensor.shape), real_values(tensor, values))


def binary(writer: Writer, op: Operator, onnx: str) -> None:
    """A function of two elements, of shapes that are broadcast as TFLite and numpy do."""
    first, second = operand(writer, op, 0), operand(writer, op, 1)
    shapes = writer.tensor(first).shape, writer.tensor(second).shape
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ModelError(
            f"its operands {list(shapes[0])} and {list(shapes[1])} do not fit together"
        ) from None
    names = [_ranked(writer, index, len(shape)) for index in (first, second)]
    writer.compute(op, names[0], [(onnx, names[1:], {})], shape, fused(op.options))


def _ranked(writer: Writer, index: int, rank: int) -> str:
    """A tensor as real numbers, an operand of a result of ``rank``, whose axes come last in the file."""
    tensor = writer.tensor(index)
    if rank != 4:
        return writer.real(index, FILE)
    if len(tensor.shape) == 4:
        return writer.real(index)
    shape = (1,) * (4 - len(tensor.shape)) + tensor.shape
    name = writer.nodes.name(f"{writer.label(index)}/nchw")
    steps: list[Step] = [writer.reshape(shape), ("Transpose", [], {"perm": TO_NCHW})]
    values = writer.constant(index)
    if values is None:
        stored = writer.nodes.chain(writer.stored(index, FILE), steps, name, name)
    else:
        stored = writer.nodes.constant(name, values.reshape(shape).transpose(TO_NCHW))
    return writer.dequantized(stored, index)


def pool(writer: Writer, op: Operator) -> None:
    """AVERAGE_POOL_2D and MAX_POOL_2D; what lies outside of the plane does not count."""
    data, options = operand(writer, op, 0), op.options
    shape = _image(writer, data)
    kernel = options.FilterHeight(), options.FilterWidth()
    stride = options.StrideH(), options.StrideW()
    border, out = window(op, shape[1:3], kernel, stride)
    kind, attributes = POOLS[op.kind]
    attributes = {**attributes, "kernel_shape": kernel, "strides": stride, "pads": pads(border)}
    step: Step = (kind, [], attributes)
    writer.compute(op, writer.real(data), [step], (shape[0], *out, shape[3]), fused(options))


def mean(writer: Writer, op: Operator) -> None:
    """MEAN; over the plane of an image it is a global average pool."""
    data = operand(writer, op, 0)
    shape = writer.tensor(data).shape
    axes = sorted({_axis(int(axis), len(shape)) for axis in _numbers(writer, op, 1)})
    keep = bool(op.options.KeepDims())
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
    left = tuple(extent for axis, extent in enumerate(shape) if axis not in axes)
    index = writer.result(op, kept if keep else left)
    step: Step = ("ReduceMean", [], {"axes": axes, "keepdims": 1})
    order = FILE
    if len(shape) == 4 and axes == [1, 2]:
        step, order = ("GlobalAveragePool", [], {}), NCHW
    first, steps = writer.real(data, order), writer.finished(index, [step], "NONE")
    if keep:
        writer.write(index, order, first, steps)
    else:
        writer.put_flat(index, first, steps)


def softmax(writer: Writer, op: Operator) -> None:
    """SOFTMAX over the last axis of the file's order."""
    data, beta = operand(writer, op, 0), op.options.Beta()
    shape = writer.tensor(data).shape
    steps: list[Step] = [("Softmax", [], {"axis": 1 if len(shape) == 4 else -1})]
    if beta != 1.0:
        factor = writer.nodes.constant(f"{op.name}/beta", np.asarray(beta, np.float32))
        steps.insert(0, ("Mul", [factor], {}))
    writer.compute(op, writer.real(data), steps, shape)


def concatenation(writer: Writer, op: Operator) -> None:
    """CONCATENATION along any axis."""
    inputs = [operand(writer, op, position) for position in range(max(1, len(op.inputs)))]
    shapes = [writer.tensor(index).shape for index in inputs]
    rank = len(shapes[0])
    axis = _axis(op.options.Axis(), rank)
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes if len(shape) == rank}
    if len(others) != 1 or any(len(shape) != rank for shape in shapes):
        raise ModelError(f"its inputs do not fit together: {[list(shape) for shape in shapes][:8]}")
    shape = (*shapes[0][:axis], sum(each[axis] for each in shapes), *shapes[0][axis + 1 :])
    names = [writer.real(index) for index in inputs]
    step: Step = ("Concat", names[1:], {"axis": TO_NCHW.index(axis) if rank == 4 else axis})
    writer.compute(op, names[0], [step], shape, fused(op.options))


def reshape(writer: Writer, op: Operator) -> None:
    """RESHAPE, SQUEEZE and EXPAND_DIMS: the result's shape is in the file."""
    data = operand(writer, op, 0)
    shape = writer.tensor(op.outputs[0]).shape if op.outputs else ()
    index = writer.result(op, shape)
    _same_elements(writer, data, index)
    if writer.tensor(index).size != writer.tensor(data).size:
        raise ModelError(f"it makes {list(shape)} of {list(writer.tensor(data).shape)}")
    writer.put_flat(index, writer.flat(data))


def transpose(writer: Writer, op: Operator) -> None:
    """TRANSPOSE of the file's axes."""
    data, perm = operand(writer, op, 0), [int(axis) for axis in _numbers(writer, op, 1)]
    shape = writer.tensor(data).shape
    if sorted(perm) != list(range(len(shape))):
        raise ModelError(f"it permutes {len(shape)} axes by {perm[:8]}")
    index = writer.result(op, [shape[axis] for axis in perm])
    _same_elements(writer, data, index)
    writer.write(index, FILE, writer.stored(data, FILE), [("Transpose", [], {"perm": perm})])


def pad(writer: Writer, op: Operator) -> None:
    """PAD with zeros."""
    data, widths = operand(writer, op, 0), _numbers(writer, op, 1)
    shape = writer.tensor(data).shape
    widths = widths.astype(np.int64)
    if widths.shape != (len(shape), 2) or (widths < 0).any() or (widths > np.iinfo(np.int32).max).any():
        raise ModelError(f"its widths are {widths.tolist()[:8]} for data of {list(shape)}")
    index = writer.result(op, [extent + int(sum(width)) for extent, width in zip(shape, widths, strict=True)])
    _same_elements(writer, data, index)
    order = writer.order(index)
    turned = widths[list(TO_NCHW)] if order == NCHW else widths
    zero = np.zeros((), np.float32)
    if writer.tensor(data).dtype != "float32":
        (scale, zero), (result_scale, result_zero) = map(writer.scale_and_zero, (data, index))
        if (scale, zero) != (result_scale, result_zero):
            raise ModelError("its result has another scale or zero point than its data")
    names = [
        writer.nodes.constant(f"{op.name}/widths", turned.T.reshape(-1)),
        writer.nodes.constant(f"{op.name}/zero", zero),
    ]
    writer.write(index, order, writer.stored(data, order), [("Pad", names, {})])
    writer.padded.note(index, data, widths)


def _image(writer: Writer, index: int) -> tuple[int, ...]:
    shape = writer.tensor(index).shape
    if len(shape) != 4:
        raise ModelError(f"its data is {list(shape)}, not of rank 4")
    return shape


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ModelError(f"its data of rank {rank} has no axis {axis}")
    return axis % rank


def _numbers(writer: Writer, op: Operator, position: int) -> Array:
    """The constant integers at an input."""
    values = writer.constant(operand(writer, op, position))
    if values is None or values.dtype.kind != "i":
        raise ModelError(f"its input {position} is not a constant of integers")
    return values


def _same_elements(writer: Writer, data: int, index: int) -> None:
    types = writer.tensor(data).dtype, writer.tensor(index).dtype
    if types[0] != types[1]:
        raise ModelError(f"it makes {types[1]} of {types[0]}")


READERS: dict[str, Reader] = {
    **{kind: elementwise(onnx) for kind, onnx in TFLITE.items()},
    **dict.fromkeys((*CLAMPS, "QUANTIZE"), unary),
    **dict.fromkeys(POOLS, pool),
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), reshape),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), convolution),
    "CONCATENATION": concatenation,
    "DEQUANTIZE": dequantize,
    "FULLY_CONNECTED": fully_connected,
    "MEAN": mean,
    "PAD": pad,
    "SOFTMAX": softmax,
    "TRANSPOSE": transpose,
}
