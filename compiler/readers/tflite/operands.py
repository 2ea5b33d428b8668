"""What an operator is given: checked, and as readers want it."""

from __future__ import annotations

import math
from collections.abc import Callable

from compiler.ir.checks import ModelError
from compiler.readers.tflite.file import Array, Operator
from compiler.readers.tflite.nodes import Step
from compiler.readers.tflite.products import operand
from compiler.readers.tflite.writer import FILE, TO_NCHW, Writer

Reader = Callable[[Writer, Operator], None]


def image(writer: Writer, index: int) -> tuple[int, ...]:
    """The shape of an image; raises ModelError for other ranks."""
    shape = writer.tensor(index).shape
    if len(shape) != 4:
        raise ModelError(f"its data is {list(shape)}, not of rank 4")
    return shape


def axis_of(axis: int, rank: int) -> int:
    """``axis`` counted from the first; raises ModelError where there is none."""
    if not -rank <= axis < rank:
        raise ModelError(f"its data of rank {rank} has no axis {axis}")
    return axis % rank


def numbers(writer: Writer, op: Operator, position: int) -> Array:
    """The constant integers at an input."""
    values = writer.constant(operand(writer, op, position))
    if values is None or values.dtype.kind != "i":
        raise ModelError(f"its input {position} is not a constant of integers")
    return values


def wanted_shape(writer: Writer, op: Operator, position: int, size: int | None = None) -> tuple[int, ...]:
    """The shape of the result: what the file says, or where that is open the constant at an input.

    One extent of -1 is what is left of ``size`` elements.
    """
    tensor = writer.tensor(op.outputs[0]) if op.outputs else None
    if tensor is None or not tensor.open or len(op.inputs) <= position:
        return () if tensor is None else tensor.shape
    shape = [int(extent) for extent in numbers(writer, op, position).reshape(-1)]
    if size is not None and shape.count(-1) == 1:
        rest = -math.prod(shape)
        if rest < 1 or size % rest:
            raise ModelError(f"it makes {shape[:8]} of {size} elements")
        shape[shape.index(-1)] = size // rest
    if min(shape, default=0) < 0:
        raise ModelError(f"its result has the impossible shape {shape[:8]}")
    return tuple(shape)


def same_elements(writer: Writer, data: int, index: int) -> None:
    """Raise ModelError where an operator that moves elements would change their type."""
    types = writer.tensor(data).dtype, writer.tensor(index).dtype
    if types[0] != types[1]:
        raise ModelError(f"it makes {types[1]} of {types[0]}")


def ranked(writer: Writer, index: int, rank: int) -> str:
    """A tensor as real numbers, an operand of a result of ``rank``; its axes come last in the file."""
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
