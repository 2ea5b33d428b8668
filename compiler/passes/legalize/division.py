"""Integers beyond what instructions or a compiler know of them: divisions by 0 and of the least number by -1,
shifts by more bits than there are, and unsigned numbers that leave their type."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from compiler.analysis.bounds import NOT_ZERO, is_within
from compiler.analysis.intervals import Intervals
from compiler.passes.legalize.writer import Writer


def divided(writer: Writer) -> bool:
    """A division of integers: by 0 it is refused, and the least by -1 is the least, as numbers wrap."""
    dividend, divisor = writer.node.input
    info = writer.info(0)
    if np.dtype(info.dtype).kind not in "iu":
        return False
    by, known = divisor, writer.value(1)
    low, high = Intervals(writer.graph).of(divisor)
    if known is not None or not is_within(low, high, *NOT_ZERO):
        by = writer.bounded(divisor, *NOT_ZERO, "a divisor")
    if (low > -1 or high < -1) if known is None else not (known == -1).any():
        if by == divisor:
            return False
        writer.with_operands(dividend, by)
        return True
    # TVM takes for granted that no number is the least, so what is looked for is -1.
    negative = writer.add("Equal", by, writer.constant(np.array(-1, info.dtype)))
    by = writer.add("Where", negative, writer.constant(np.array(1, info.dtype)), by)
    if writer.node.op_type == "Mod":
        writer.with_operands(dividend, by)
        return True
    made = writer.add("Div", dividend, by)
    opposite = writer.add("Sub", writer.constant(np.zeros((), info.dtype)), made)
    writer.finish("Where", negative, opposite, made)
    return True


def shifted(writer: Writer) -> bool:
    """A shift by all bits or more leaves 0."""
    (data, bits), info = writer.node.input, writer.info(0)
    width, known = np.dtype(info.dtype).itemsize * 8, writer.value(1)
    most = Intervals(writer.graph).of(bits)[1] if known is None else int(known.max(initial=0))
    if most < width:
        return False
    zero = writer.constant(np.zeros((), info.dtype))
    inside = writer.add("Less", bits, writer.constant(np.array(width, info.dtype)))
    within = writer.add("Where", inside, bits, zero)
    moved = writer.add("BitShift", data, within, **writer.attributes)
    writer.finish("Where", inside, moved, zero)
    return True


def wrapped(writer: Writer) -> bool:
    """A sum, difference or product of wide unsigned numbers, which begins again where it leaves their type:
    TVM tells LLVM that it never does, which takes 0 - x for 0."""
    info, op = writer.info(0), writer.node.op_type
    if info.dtype not in ("uint32", "uint64"):
        return False
    # A product of uint32 needs all 64 bits; of uint64 nothing is wider, but signed numbers leave less often.
    wide = TensorProto.UINT64 if op == "Mul" and info.dtype == "uint32" else TensorProto.INT64
    made = writer.add(op, *(writer.add("Cast", name, to=wide) for name in writer.node.input))
    writer.finish("Cast", made, to=info.elem_type)
    return True
