"""Copying part of a row by whole vectors, taking every element or every other one."""

from __future__ import annotations

from kernels.emit import tir
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import pieces, shuffle

LONGEST_UNROLL = 8
"""Vectors of a row that are copied without a loop."""


def copy_row(
    target: Buffer, at: Index, source: Buffer, start: Index, count: int, step: int, lanes: int
) -> None:
    """``target[at + i] = source[start + i * step]`` for i in ``range(count)``; reads nothing beyond those."""
    if step > 2:
        with T.serial(0, count) as i:
            tir.store(target, source[start + i * step], at + i)
        return

    def vector(first: Index, width: int) -> None:
        value = load_stepped(source, start + first * step, width, step)
        tir.store(target, value, tir.vector(at + first, width))

    whole = count // lanes
    if whole > LONGEST_UNROLL:
        with tir.loop(whole) as turn:
            vector(turn * lanes, lanes)
    else:
        for turn in range(whole):
            vector(turn * lanes, lanes)
    if whole and count % lanes:
        # The last vector overlaps the one before it.
        vector(count - lanes, lanes)
    elif count and not whole:
        for first, width in pieces(count):
            vector(first, width)


def load_stepped(source: Buffer, start: Index, width: int, step: int) -> Vector:
    """``width`` elements from ``start``, each or (``step`` 2) every other one; reads none beyond the last."""
    if step == 1 or width == 1:
        return source[tir.vector(start, width)]
    # Two vectors that overlap by one element, so that the last element read is the last one wanted.
    low, high = source[tir.vector(start, width)], source[tir.vector(start + width - 1, width)]
    lanes = [2 * i if 2 * i < width else 2 * i + 1 for i in range(width)]
    return shuffle([T.Bind(low), T.Bind(high)], lanes)
