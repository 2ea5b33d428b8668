"""Operators of TFLite that move elements, in ONNX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import tflite

from compiler.ir.checks import ModelError
from compiler.ir.own_nodes import NEEDS
from compiler.readers.tflite.file import Array, Operator
from compiler.readers.tflite.formula import Formula
from compiler.readers.tflite.nodes import Step
from compiler.readers.tflite.operands import axis_of, numbers, same_elements, wanted_shape
from compiler.readers.tflite.products import fused, operand
from compiler.readers.tflite.writer import FILE, NCHW, TO_NCHW, Writer


def concatenation(writer: Writer, op: Operator) -> None:
    """CONCATENATION along any axis."""
    inputs = [operand(writer, op, position) for position in range(max(1, len(op.inputs)))]
    shapes = [writer.tensor(index).shape for index in inputs]
    rank = len(shapes[0])
    axis = axis_of(op.options.Axis(), rank)
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes if len(shape) == rank}
    if len(others) != 1 or any(len(shape) != rank for shape in shapes):
        raise ModelError(f"its inputs do not fit together: {[list(shape) for shape in shapes][:8]}")
    shape = (*shapes[0][:axis], sum(each[axis] for each in shapes), *shapes[0][axis + 1 :])
    names = [writer.real(index) for index in inputs]
    step: Step = ("Concat", names[1:], {"axis": TO_NCHW.index(axis) if rank == 4 else axis})
    writer.compute(op, names[0], [step], shape, fused(op.options))


def reshape(writer: Writer, op: Operator) -> None:
    """RESHAPE, SQUEEZE and EXPAND_DIMS."""
    data = operand(writer, op, 0)
    shape = _reshaped(writer, op, data)
    if data in writer.spectra and op.outputs:
        to = Formula(writer, op)
        writer.agree(op.outputs[0], shape)
        (real, imaginary) = (to.reshaped(part, shape) for part in writer.spectra[data])
        writer.spectra[op.outputs[0]] = real, imaginary
        return
    index = writer.result(op, shape)
    same_elements(writer, data, index)
    if writer.tensor(index).size != writer.tensor(data).size:
        raise ModelError(f"it makes {list(shape)} of {list(writer.tensor(data).shape)}")
    writer.put_flat(index, writer.flat(data))


def _reshaped(writer: Writer, op: Operator, data: int) -> tuple[int, ...]:
    """What shape the file gives the result, or the operator where the file leaves it open."""
    tensor, before = writer.tensor(op.outputs[0]) if op.outputs else None, writer.tensor(data)
    if op.kind == "RESHAPE" or tensor is None or not tensor.open:
        return wanted_shape(writer, op, 1, before.size)
    if op.kind == "SQUEEZE":
        axes = op.options.SqueezeDimsAsNumpy() if op.options.SqueezeDimsLength() else ()
        gone = {axis_of(int(axis), len(before.shape)) for axis in axes} or set(range(len(before.shape)))
        return tuple(n for axis, n in enumerate(before.shape) if n != 1 or axis not in gone)
    axis = axis_of(int(numbers(writer, op, 1).reshape(-1)[0]), len(before.shape) + 1)
    return (*before.shape[:axis], 1, *before.shape[axis:])


def transpose(writer: Writer, op: Operator) -> None:
    """TRANSPOSE of the file's axes."""
    data, perm = operand(writer, op, 0), [int(axis) for axis in numbers(writer, op, 1)]
    shape = writer.tensor(data).shape
    if sorted(perm) != list(range(len(shape))):
        raise ModelError(f"it permutes {len(shape)} axes by {perm[:8]}")
    index = writer.result(op, [shape[axis] for axis in perm])
    same_elements(writer, data, index)
    writer.write(index, FILE, writer.stored(data, FILE), [("Transpose", [], {"perm": perm})])


def pad(writer: Writer, op: Operator) -> None:
    """PAD with zeros, PADV2 with a constant, MIRROR_PAD with what lies next to the edge."""
    data, widths = operand(writer, op, 0), numbers(writer, op, 1)
    shape = writer.tensor(data).shape
    widths = widths.astype(np.int64)
    if widths.shape != (len(shape), 2) or (widths < 0).any() or (widths > np.iinfo(np.int32).max).any():
        raise ModelError(f"its widths are {widths.tolist()[:8]} for data of {list(shape)}")
    index = writer.result(op, [extent + int(sum(width)) for extent, width in zip(shape, widths, strict=True)])
    same_elements(writer, data, index)
    order = writer.order(index)
    turned = widths[list(TO_NCHW)] if order == NCHW else widths
    names = [writer.nodes.constant(f"{op.name}/widths", turned.T.reshape(-1))]
    mirrored = op.kind == "MIRROR_PAD"
    if mirrored and op.options.Mode() != tflite.MirrorPadMode.REFLECT:
        raise ModelError("it repeats the edge itself (SYMMETRIC), which is not supported")
    if not mirrored:
        names.append(writer.nodes.constant(f"{op.name}/value", _filling(writer, op, data, index)))
    step: Step = ("Pad", names, {"mode": "reflect" if mirrored else "constant"})
    writer.write(index, order, writer.stored(data, order), [step])
    if op.kind == "PAD":
        writer.padded.note(index, data, widths)


def _filling(writer: Writer, op: Operator, data: int, index: int) -> Array:
    """What a border consists of, as the data is stored."""
    tensor = writer.tensor(data)
    zero: Array = np.zeros((), tensor.dtype)
    if tensor.quantized:
        (scale, zero), (result_scale, result_zero) = map(writer.scale_and_zero, (data, index))
        if (scale, zero) != (result_scale, result_zero):
            raise ModelError("its result has another scale or zero point than its data")
    if op.kind != "PADV2":
        return zero
    given = writer.constant(operand(writer, op, 2))
    if given is None or given.size != 1 or given.dtype.name != tensor.dtype:
        raise ModelError("its value is no constant of the data's type")
    return given.reshape(())


def cut(
    writer: Writer, op: Operator, data: int, ranges: Sequence[range], shape: Sequence[int] | None = None
) -> None:
    """Write the result of ``op``: along each axis the elements of its range, reshaped to ``shape``."""
    taken = [len(each) for each in ranges]
    index = writer.result(op, taken if shape is None else shape)
    same_elements(writer, data, index)
    if 0 in taken:
        if writer.constant(data) is None:
            raise ModelError("it takes nothing")
        writer.hold(index, np.zeros(writer.tensor(index).shape, writer.tensor(index).dtype))
        return
    order = writer.order(index) if shape is None else FILE
    turned = [ranges[axis] for axis in TO_NCHW] if order == NCHW else list(ranges)
    # Before the first element of an axis there is none: its end going back is said by a very low number.
    limits = [
        [each.start for each in turned],
        [each.stop if each.stop >= 0 else np.iinfo(np.int32).min for each in turned],
        [*range(len(turned))],
        [each.step for each in turned],
    ]
    names = [writer.nodes.constant(f"{op.name}/slice", np.asarray(limit, np.int64)) for limit in limits]
    steps: list[Step] = [("Slice", names, {})]
    if shape is not None:
        steps.append(writer.reshape(shape))
    writer.write(index, order, writer.stored(data, order), steps)


def part(writer: Writer, op: Operator) -> None:
    """SLICE: a constant beginning and size."""
    data, begin, size = operand(writer, op, 0), numbers(writer, op, 1), numbers(writer, op, 2)
    shape = writer.tensor(data).shape
    if begin.shape != (len(shape),) or size.shape != (len(shape),):
        raise ModelError(f"it begins at {begin.tolist()[:8]} in data of {list(shape)}")
    ranges = [
        range(int(first), extent if count == -1 else int(first + count))
        for first, count, extent in zip(begin, size, shape, strict=True)
    ]
    if any(each.start < 0 or each.stop > extent for each, extent in zip(ranges, shape, strict=True)):
        raise ModelError(f"it takes {size.tolist()} from {begin.tolist()} on of data of {list(shape)}")
    cut(writer, op, data, ranges)


def strided_slice(writer: Writer, op: Operator) -> None:
    """STRIDED_SLICE with constant limits; axes may be dropped, and there may be new ones."""
    data, options = operand(writer, op, 0), op.options
    begin, end, step = (numbers(writer, op, place) for place in (1, 2, 3))
    shape = writer.tensor(data).shape
    if options.Offset():
        raise ModelError("its ends are offsets, which is not supported")
    if not begin.size == end.size == step.size or not step.all():
        raise ModelError(f"it has {begin.size} limits for data of {list(shape)}")
    ranges: list[range] = []
    left: list[int] = []
    whole = len(shape) - sum(
        not (options.NewAxisMask() | options.EllipsisMask()) >> place & 1 for place in range(begin.size)
    )
    for place in [*range(begin.size), None]:
        if (place is not None and options.EllipsisMask() >> place & 1) or (place is None and whole > 0):
            # All of the axes that nothing else is said of; where no ellipsis says so, they come last.
            rest = shape[len(ranges) : len(ranges) + max(0, whole)]
            ranges += map(range, rest)
            left += rest
            whole = 0
        elif place is not None and options.NewAxisMask() >> place & 1:
            left.append(1)
        elif place is not None and len(ranges) < len(shape):
            extent = shape[len(ranges)]
            first, last, by = int(begin[place]), int(end[place]), int(step[place])
            if options.ShrinkAxisMask() >> place & 1:
                at = axis_of(first, extent)
                ranges.append(range(at, at + 1))
                continue
            begins = None if options.BeginMask() >> place & 1 else first
            ends = None if options.EndMask() >> place & 1 else last
            ranges.append(range(*slice(begins, ends, by).indices(extent)))
            left.append(len(ranges[-1]))
    if len(ranges) != len(shape):
        raise ModelError(f"it has {begin.size} limits for data of {list(shape)}")
    same = left == [len(each) for each in ranges]
    cut(writer, op, data, ranges, None if same else left)


def split(writer: Writer, op: Operator) -> None:
    """SPLIT in equal parts, SPLIT_V in given ones, UNPACK in single ones without their axis."""
    if op.kind == "UNPACK":
        data, axis = operand(writer, op, 0), op.options.Axis()
    elif op.kind == "SPLIT":
        data, axis = operand(writer, op, 1), int(numbers(writer, op, 0).reshape(-1)[0])
    else:
        data, axis = operand(writer, op, 0), int(numbers(writer, op, 2).reshape(-1)[0])
    shape = writer.tensor(data).shape
    axis, count = axis_of(axis, len(shape)), max(1, len(op.outputs))
    sizes = [shape[axis] // count] * count
    if op.kind == "SPLIT_V":
        sizes = [int(size) for size in numbers(writer, op, 1).reshape(-1)]
        rest = shape[axis] - sum(size for size in sizes if size >= 0)
        sizes = [rest if size < 0 else size for size in sizes]
    if len(sizes) != count or sum(sizes) != shape[axis]:
        raise ModelError(f"it splits {shape[axis]} elements into {sizes[:8]} for {count} results")
    without = [extent for place, extent in enumerate(shape) if place != axis]
    first = 0
    for output, size in zip(op.outputs, sizes, strict=True):
        ranges = [range(extent) for extent in shape]
        ranges[axis] = range(first, first + size)
        single = without if op.kind == "UNPACK" else None
        cut(writer, replace(op, outputs=(output,)), data, ranges, single)
        first += size


def pack(writer: Writer, op: Operator) -> None:
    """PACK: tensors of one shape side by side along a new axis."""
    inputs = [operand(writer, op, place) for place in range(max(1, len(op.inputs)))]
    shape = writer.tensor(inputs[0]).shape
    axis = axis_of(op.options.Axis(), len(shape) + 1)
    if any(writer.tensor(index).shape != shape for index in inputs):
        raise ModelError("its inputs have several shapes")
    index = writer.result(op, (*shape[:axis], len(inputs), *shape[axis:]))
    names = []
    for each in inputs:
        same_elements(writer, each, index)
        name = writer.nodes.name(f"{op.name}/part")
        wide = writer.reshape((*shape[:axis], 1, *shape[axis:]))
        names.append(writer.nodes.chain(writer.stored(each, FILE), [wide], name, name))
    writer.write(index, FILE, names[0], [("Concat", names[1:], {"axis": axis})])


def gather(writer: Writer, op: Operator) -> None:
    """GATHER along one axis, and EMBEDDING_LOOKUP of rows."""
    places = (1, 0) if op.kind == "EMBEDDING_LOOKUP" else (0, 1)
    data, indices = (operand(writer, op, place) for place in places)
    axis = 0 if op.kind == "EMBEDDING_LOOKUP" else op.options.Axis()
    if op.kind == "GATHER" and op.options.BatchDims():
        raise ModelError("it has batch dimensions, which are not supported")
    shape, wanted = writer.tensor(data).shape, writer.tensor(indices)
    axis = axis_of(axis, len(shape))
    if wanted.dtype not in ("int32", "int64"):
        raise ModelError(f"its indices are of {wanted.dtype}")
    index = writer.result(op, (*shape[:axis], *wanted.shape, *shape[axis + 1 :]))
    same_elements(writer, data, index)
    step: Step = ("Gather", [writer.stored(indices, FILE)], {"axis": axis})
    writer.write(index, FILE, writer.stored(data, FILE), [step])
    count_from_the_start(writer, op)


def count_from_the_start(writer: Writer, op: Operator) -> None:
    """Have the node that was written last take no places below 0, which ONNX's counts from the end."""
    needs = json.dumps([f"node {op.name!r} ({op.kind})", "an index"])
    writer.nodes.nodes[-1].metadata_props.add(key=NEEDS, value=needs)


def densify(writer: Writer, op: Operator) -> None:
    """DENSIFY: sparse constants are dense as soon as they are read."""
    data = operand(writer, op, 0)
    values, tensor = writer.constant(data), writer.tensor(data)
    if values is None or len(op.outputs) != 1 or writer.tensor(op.outputs[0]).shape != tensor.shape:
        raise ModelError("its data is no constant of the shape of its result")
    writer.hold(op.outputs[0], values)


def shape_of(writer: Writer, op: Operator) -> None:
    """SHAPE: the file knows it."""
    shape = writer.tensor(operand(writer, op, 0)).shape
    index = writer.result(op, (len(shape),))
    writer.hold(index, np.asarray(shape, writer.tensor(index).dtype))


def tile(writer: Writer, op: Operator) -> None:
    """TILE so many times along each axis."""
    data, times = operand(writer, op, 0), numbers(writer, op, 1).astype(np.int64)
    shape = writer.tensor(data).shape
    if times.shape != (len(shape),) or (times < 1).any():
        raise ModelError(f"it repeats data of {list(shape)} {times.tolist()[:8]} times")
    index = writer.result(op, [extent * int(count) for extent, count in zip(shape, times, strict=True)])
    same_elements(writer, data, index)
    step: Step = ("Tile", [writer.nodes.constant(f"{op.name}/times", times)], {})
    writer.write(index, FILE, writer.stored(data, FILE), [step])


def expand(writer: Writer, op: Operator) -> None:
    """BROADCAST_TO the shape that the file says of the result."""
    data, shape = operand(writer, op, 0), wanted_shape(writer, op, 1)
    index = writer.result(op, shape)
    same_elements(writer, data, index)
    name = writer.nodes.constant(f"{op.name}/shape", np.asarray(shape, np.int64))
    writer.write(index, FILE, writer.stored(data, FILE), [("Expand", [name], {})])


def reverse(writer: Writer, op: Operator) -> None:
    """REVERSE_V2 along some axes."""
    data = operand(writer, op, 0)
    shape = writer.tensor(data).shape
    axes = {axis_of(int(axis), len(shape)) for axis in numbers(writer, op, 1).reshape(-1)}
    ranges = [range(n - 1, -1, -1) if axis in axes else range(n) for axis, n in enumerate(shape)]
    cut(writer, op, data, ranges)
