"""Operands of integer products on Arm: which bytes are multiplied, and how the data become these."""

from __future__ import annotations

from collections.abc import Callable

from kernels.emit import code_shape, tir
from kernels.emit.types import Buffer, Index, Vector
from kernels.workload.qconv2d import QConv2d

SIGNED, UNSIGNED = (-128, 127), (0, 255)
COPIED = 16
"""Elements that a copy moves at once."""
FLIP = 128
"""Flipping the highest bit of a byte adds 128 to a signed one and takes it from an unsigned one."""


def signedness(conv: QConv2d) -> bool | None:
    """Whether weights less their zero point fit signed bytes, or else unsigned ones; None when neither."""
    low, high = conv.centered_range
    if low >= SIGNED[0] and high <= SIGNED[1]:
        return True
    return False if low >= UNSIGNED[0] and high <= UNSIGNED[1] else None


def why_not_chained(conv: QConv2d, count: int = 2) -> str | None:
    """Why sums of ``count`` products of bytes do not fit 16 bits, or None when the weights' range proves
    it."""
    low, high = conv.centered_range
    data_low, data_high = SIGNED if signedness(conv) else UNSIGNED
    ends = [count * data * weight for data in (data_low, data_high) for weight in (low, high)]
    limits = (-(1 << 15), (1 << 15) - 1) if signedness(conv) else (0, (1 << 16) - 1)
    if limits[0] <= min(ends) and max(ends) <= limits[1]:
        return None
    return f"{count} products by weights from {low} to {high} may not fit 16 bits"


def multiplied(source: Buffer, at: Index, dtype: str, lanes: int) -> Vector:
    """``lanes`` elements of ``source`` as they are multiplied: widened, or of the other sign by a flip."""
    value = source[tir.vector(at, lanes)]
    if source.dtype == dtype:
        return value
    if dtype == "int16":
        return tir.convert(value, "int16", lanes)
    flipped = tir.reinterpret(value, "uint8", lanes) ^ tir.const(FLIP, "uint8", lanes)
    return tir.reinterpret(flipped, dtype, lanes)


def by_parts(count: int, emit: Callable[[Index, int], None]) -> None:
    """``emit(start, width)`` for ``count`` elements: whole copies in a loop, then smaller ones."""
    whole = count // COPIED
    if whole:
        with tir.loop(whole) as turn:
            emit(turn * COPIED, COPIED)
            # Else LLVM would make calls of ``memset`` and ``memcpy``, which may go byte by byte.
            code_shape.order()
    start = whole * COPIED
    for width in (8, 4, 2, 1):
        if count - start & width:
            emit(tir.index(start), width)
            start += width
