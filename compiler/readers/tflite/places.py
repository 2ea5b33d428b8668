"""Operators of TFLite that count, fill and look up by several indices, in ONNX."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from compiler.ir.checks import ModelError, check_size
from compiler.readers.tflite.file import Array, Operator
from compiler.readers.tflite.formula import Formula
from compiler.readers.tflite.moves import count_from_the_start
from compiler.readers.tflite.nodes import Step
from compiler.readers.tflite.operands import axis_of, numbers, same_elements, wanted_shape
from compiler.readers.tflite.products import operand
from compiler.readers.tflite.writer import FILE, Writer


def gather_nd(writer: Writer, op: Operator) -> None:
    """GATHER_ND: the last axis of the indices says where in the first axes of the data."""
    data, indices = operand(writer, op, 0), operand(writer, op, 1)
    shape, wanted = writer.tensor(data).shape, writer.tensor(indices)
    if wanted.dtype not in ("int32", "int64"):
        raise ModelError(f"its indices are of {wanted.dtype}")
    if not wanted.shape or not 1 <= wanted.shape[-1] <= len(shape):
        raise ModelError(f"its indices {list(wanted.shape)} do not fit data of {list(shape)}")
    index = writer.result(op, (*wanted.shape[:-1], *shape[wanted.shape[-1] :]))
    same_elements(writer, data, index)
    places = Formula(writer, op)("Cast", writer.stored(indices, FILE), to=TensorProto.INT64)
    writer.write(index, FILE, writer.stored(data, FILE), [("GatherND", [places], {})])
    count_from_the_start(writer, op)


def one_hot(writer: Writer, op: Operator) -> None:
    """ONE_HOT: a place that there is not, one below 0 among them, is off everywhere."""
    indices, depth = operand(writer, op, 0), numbers(writer, op, 1)
    on, off = operand(writer, op, 2), operand(writer, op, 3)
    tensor = writer.tensor(indices)
    if tensor.dtype not in ("int32", "int64") or depth.size != 1 or int(depth.item()) < 0:
        raise ModelError(f"its indices are of {tensor.dtype}, its depth is {depth.reshape(-1)[:8].tolist()}")
    count, axis = int(depth.item()), axis_of(op.options.Axis(), len(tensor.shape) + 1)
    before, behind = tensor.shape[:axis], tensor.shape[axis:]
    places = np.arange(count, dtype=tensor.dtype).reshape(-1, *[1] * len(behind))
    index = writer.result(op, (*before, count, *behind))
    same_elements(writer, on, index)
    same_elements(writer, off, index)
    steps: list[Step] = [
        writer.reshape((*before, 1, *behind)),
        ("Equal", [writer.nodes.constant(f"{op.name}/places", places)], {}),
        ("Where", [writer.stored(value, FILE) for value in (on, off)], {}),
    ]
    writer.write(index, FILE, writer.stored(indices, FILE), steps)


def _blocks(writer: Writer, op: Operator) -> tuple[tuple[int, ...], list[int], Array]:
    """The data's shape, the extents of a block, and what is put or cut at the ends of each of their axes."""
    shape = writer.tensor(operand(writer, op, 0)).shape
    block = [int(extent) for extent in numbers(writer, op, 1).reshape(-1)]
    ends = numbers(writer, op, 2).astype(np.int64)
    if min(block, default=0) < 1 or ends.shape != (len(block), 2) or (ends < 0).any():
        raise ModelError(f"its blocks are {block[:8]}, their ends {ends.tolist()[:8]}")
    if len(shape) <= len(block) or (ends > np.iinfo(np.int32).max).any():
        raise ModelError(f"its blocks {block[:8]} do not fit data of {list(shape)}")
    return shape, block, ends


def space_to_batch(writer: Writer, op: Operator) -> None:
    """SPACE_TO_BATCH_ND: zeros around, and each place of the blocks becomes images of its own."""
    shape, block, ends = _blocks(writer, op)
    data, count = operand(writer, op, 0), len(block)
    padded = [extent + int(sum(more)) for extent, more in zip(shape[1 : count + 1], ends, strict=True)]
    if any(extent % size for extent, size in zip(padded, block, strict=True)):
        raise ModelError(f"it cuts {padded} into blocks of {block}")
    fewer = [extent // size for extent, size in zip(padded, block, strict=True)]
    rest = shape[count + 1 :]
    index = writer.result(op, (shape[0] * math.prod(block), *fewer, *rest))
    same_elements(writer, data, index)
    around = np.zeros((len(shape), 2), np.int64)
    around[1 : count + 1] = ends
    tensor = writer.tensor(data)
    zero = writer.scale_and_zero(data)[1] if tensor.quantized else np.zeros((), tensor.dtype)
    widths = writer.nodes.constant(f"{op.name}/widths", around.T.reshape(-1))
    steps: list[Step] = [("Pad", [widths, writer.nodes.constant(f"{op.name}/zero", zero)], {})]
    cut = [size for pair in zip(fewer, block, strict=True) for size in pair]
    inner = [2 * axis + 2 for axis in range(count)]
    outer = [2 * axis + 1 for axis in range(count)]
    perm = [*inner, 0, *outer, *range(2 * count + 1, 2 * count + 1 + len(rest))]
    steps += [writer.reshape((shape[0], *cut, *rest)), ("Transpose", [], {"perm": perm})]
    steps.append(writer.reshape(writer.tensor(index).shape))
    writer.write(index, FILE, writer.stored(data, FILE), steps)


def batch_to_space(writer: Writer, op: Operator) -> None:
    """BATCH_TO_SPACE_ND: the inverse of the above, and then the ends are cut off."""
    shape, block, ends = _blocks(writer, op)
    data, count = operand(writer, op, 0), len(block)
    if shape[0] % math.prod(block):
        raise ModelError(f"it makes blocks of {block} out of {shape[0]} images")
    batch, rest = shape[0] // math.prod(block), shape[count + 1 :]
    whole = [extent * size for extent, size in zip(shape[1 : count + 1], block, strict=True)]
    left = [extent - int(sum(cut)) for extent, cut in zip(whole, ends, strict=True)]
    if min(left) < 1:
        raise ModelError(f"it cuts {ends.tolist()} off {whole}")
    index = writer.result(op, (batch, *left, *rest))
    same_elements(writer, data, index)
    pairs = [axis for place in range(count) for axis in (count + 1 + place, place)]
    perm = [count, *pairs, *range(2 * count + 1, 2 * count + 1 + len(rest))]
    limits = [ends[:, 0], ends[:, 0] + left, np.arange(1, count + 1)]
    names = [writer.nodes.constant(f"{op.name}/ends", np.asarray(limit, np.int64)) for limit in limits]
    steps: list[Step] = [
        writer.reshape((*block, batch, *shape[1 : count + 1], *rest)),
        ("Transpose", [], {"perm": perm}),
        writer.reshape((batch, *whole, *rest)),
        ("Slice", names, {}),
    ]
    writer.write(index, FILE, writer.stored(data, FILE), steps)


def counted(writer: Writer, op: Operator) -> None:
    """RANGE of constant ends: a constant."""
    ends = [writer.constant(operand(writer, op, place)) for place in range(3)]
    if any(end is None or end.size != 1 for end in ends):
        raise ModelError("its ends are computed, not constant")
    start, stop, step = (end.reshape(()) for end in ends if end is not None)
    if not step or not np.isfinite([start, stop, step]).all():
        raise ModelError(f"it counts from {start} to {stop} by {step}")
    count = max(0, math.ceil((float(stop) - float(start)) / float(step)))
    check_size(count * 8, op.name, (count,))
    index = writer.result(op, (count,))
    dtype = writer.tensor(index).dtype
    writer.hold(index, (start + step * np.arange(count)).astype(dtype))


def filled(writer: Writer, op: Operator) -> None:
    """FILL with a number, and ZEROS_LIKE, of a constant shape."""
    of_other = op.kind == "ZEROS_LIKE"
    shape = writer.tensor(operand(writer, op, 0)).shape if of_other else wanted_shape(writer, op, 0)
    index = writer.result(op, shape)
    tensor = writer.tensor(index)
    if of_other:
        zero = writer.scale_and_zero(index)[1] if tensor.quantized else np.zeros((), tensor.dtype)
        writer.hold(index, np.full(shape, zero))
        return
    value = operand(writer, op, 1)
    same_elements(writer, value, index)
    if writer.tensor(value).size != 1:
        raise ModelError(f"it fills with {list(writer.tensor(value).shape)}, not with a number")
    number, name = (
        writer.constant(value),
        writer.nodes.constant(f"{op.name}/shape", np.asarray(shape, np.int64)),
    )
    if number is not None:
        writer.hold(index, np.full(shape, number.reshape(())))
    else:
        scalar = writer.reshape(())
        writer.write(index, FILE, writer.stored(value, FILE), [scalar, ("Expand", [name], {})])
