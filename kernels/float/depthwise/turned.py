"""Planes of one vector of channels, turned so that the channels lie innermost, and back."""

from __future__ import annotations

from collections.abc import Callable

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import transpose


def turn(
    source: Buffer,
    start: Index,
    rows: int,
    columns: int,
    lanes: int,
    store: Callable[[Vector, Index, int], None],
) -> None:
    """``store(value, at, width)`` the transpose of the ``rows`` x ``columns`` that lie at ``source[start]``.

    ``at`` counts from the transpose's first element. One of the two sides has ``lanes`` elements.
    """
    if lanes < 4 or min(rows, columns) < lanes:
        with T.serial(0, rows) as row, T.serial(0, columns) as column:
            store(source[start + row * columns + column], column * rows + row, 1)
        return
    tiles = ceil_div(max(rows, columns), lanes)
    with tir.loop(tiles) as tile:
        # The last tile overlaps the one before it.
        first = T.Bind(tir.least(tile * lanes, max(rows, columns) - lanes))
        row, column = (first, 0) if rows > columns else (0, first)
        at = T.Bind(start + row * columns + column)
        read = [T.Bind(source[tir.vector(at + lane * columns, lanes)]) for lane in range(lanes)]
        for lane, value in enumerate(transpose(read)):
            store(value, (column + lane) * rows + row, lanes)
