"""Operators that TVM, or its importer's formula, computes wrongly for NaN, infinities or a constant zero."""

from __future__ import annotations

import numpy as np

from compiler.passes.legalize.writer import Writer, vector


def itself(writer: Writer) -> bool:
    """A comparison of floats with themselves, which TVM takes for true: it is, but for NaN."""
    one, other = writer.node.input
    if one != other or not writer.info(0).dtype.startswith("float"):
        return False
    writer.finish("Not", writer.add("IsNaN", one))
    return True


def less_itself(writer: Writer) -> bool:
    """A difference of floats with themselves, zero but for NaN and infinities: TVM sets in 0."""
    one, other = writer.node.input
    if one != other or not writer.info(0).dtype.startswith("float") or not writer.info(0).shape:
        return False
    writer.finish("Mul", one, writer.constant(np.zeros(1, writer.info(0).dtype)))
    return True


def by_zero(writer: Writer) -> bool:
    """A product with, a quotient by, or a sum with a zero that the model has: TVM sets in 0 for the product,
    which NaN and infinities have not, refuses the quotient, and leaves -0 of the sum. Of an array with an
    axis it does not see it."""
    for place in (0, 1):
        value, rank = writer.value(place), len(writer.info(1 - place).shape)
        if value is None or value.size != 1 or value.any() or value.dtype.kind != "f" or not rank:
            continue
        if value.ndim:
            return False
        operands = list(writer.node.input)
        operands[place] = writer.constant(value.reshape(1))
        writer.finish(writer.node.op_type, *operands)
        return True
    return False


def log_sum_exp(writer: Writer) -> bool:
    """ReduceLogSumExp of infinities: less the largest they would be NaN."""
    info, before = writer.info(0), writer.attributes.get("axes")  # where they are no operand yet
    axes = writer.value(1) if before is None else np.array(before)
    if not info.dtype.startswith("float") or (writer.has(1) and axes is None) or not info.shape:
        return False
    along = range(len(info.shape)) if axes is None or not axes.size else axes % len(info.shape)
    largest = writer.like("ReduceMax")
    zero = writer.constant(np.zeros(1, info.dtype))
    level = writer.add("Where", writer.add("IsInf", largest), zero, largest)
    shape = [1 if axis in along else extent for axis, extent in enumerate(info.shape)]
    wide = writer.add("Reshape", level, writer.constant(vector(*shape)))
    less = writer.add("Exp", writer.add("Sub", writer.node.input[0], wide))
    result = writer.add("Add", writer.like("ReduceLogSum", less), level)
    writer.finish(
        "Reshape", result, writer.constant(vector(*writer.graph.tensors[writer.node.output[0]].shape))
    )
    return True


def hardmax(writer: Writer) -> bool:
    """Hardmax as a comparison with ArgMax, which knows what it finds among infinities and NaN."""
    shape = writer.info(0).shape
    if writer.graph.opset < 13:
        return False
    axis = writer.attributes.get("axis", -1) % len(shape)
    place = writer.add("ArgMax", writer.node.input[0], axis=axis)
    line = np.arange(shape[axis]).reshape(-1, *[1] * (len(shape) - axis - 1))
    same = writer.add("Equal", place, writer.constant(line))
    writer.finish("Cast", same, to=writer.info(0).elem_type)
    return True


def root(writer: Writer, data: str) -> None:
    """Finish with a power of one half: a root, but that of minus infinity is infinity."""
    infinity = np.array(np.inf, writer.info(0).dtype)
    least = writer.add("Equal", data, writer.constant(-infinity))
    writer.finish("Where", least, writer.constant(infinity), writer.add("Sqrt", data))
