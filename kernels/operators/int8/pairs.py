"""Where two operands of a quantized sum or product meet."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tvm.script.ir_builder import tirx as T

from kernels.emit import tir
from kernels.emit.elements import each_vector, threads_for
from kernels.emit.types import Index
from kernels.workload.qconv2d import LIMITS

Shape = tuple[int, ...]


def planes_of(shape: Shape) -> Shape | None:
    """The shape of one number for each plane of an NCHW tensor, None where there are no planes."""
    return (*shape[:2], 1, 1) if len(shape) == 4 else None


def check_second(shape: Shape, second: Shape) -> None:
    """Raises ValueError unless a second operand of shape ``second`` is one for a first one of ``shape``."""
    if second not in (shape, planes_of(shape)):
        raise ValueError(
            f"the second operand has the first one's shape {shape} or a number for each of its planes, "
            f"got {second}"
        )


def check_zeros(dtypes: tuple[str, ...], zeros: tuple[int, ...]) -> None:
    """Raises ValueError for a zero point that its type does not hold."""
    for dtype, zero in zip(dtypes, zeros, strict=True):
        low, high = LIMITS[dtype]
        if not low <= zero <= high:
            raise ValueError(f"a zero point of {dtype} is from {low} to {high}, got {zero}")


def each_pair(
    shape: Shape, second: Shape, lanes: int, threads: int, emit: Callable[[Index, Index, int], None]
) -> None:
    """``emit(at, other, width)`` for runs of up to ``lanes`` elements from ``at`` on, stored NHWC.

    They meet those of the second operand from ``other`` on. A run may overlap the one before.
    """
    if shape == second:
        each_vector(prod(shape), lanes, threads, lambda first, width: emit(first, first, width))
        return
    n, c, h, w = shape
    width = min(lanes, 1 << (c.bit_length() - 1))
    with tir.loop(n * h * w, threads_for(prod(shape), threads)) as pixel:
        at, other = T.Bind(pixel * c), T.Bind(pixel // (h * w) * c)
        with tir.loop(c // width) as turn:
            emit(at + turn * width, other + turn * width, width)
        if c % width:
            emit(at + (c - width), other + (c - width), width)
