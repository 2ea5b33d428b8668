"""Tensors of bytes from NCHW to NHWC and back: transposes in registers."""

from __future__ import annotations

from math import prod

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, PrimFunc, Vector
from kernels.emit.vectors import shuffle
from kernels.target import Target

FEW = 4
"""So many rows are interleaved, and so many columns are taken apart, without squares."""
SQUARES = (16, 8)
"""Sides of the squares that are transposed, the best first."""


def build_qrelayout(
    shape: tuple[int, ...], to_nhwc: bool, dtype: str, target: Target, threads: int, name: str
) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are a tensor of bytes of NCHW ``shape`` in the two layouts."""
    n, c, h, w = shape
    rows, columns = (c, h * w) if to_nhwc else (h * w, c)
    nchw, nhwc = shape, (n, h, w, c)
    shapes = {"data": nchw if to_nhwc else nhwc, "out": nhwc if to_nhwc else nchw}
    function = Function(name, shapes, dict.fromkeys(shapes, dtype))
    with function as (data, out):
        _turn(data, out, n, rows, columns, target, threads_for(prod(shape), threads))
    return function.result()


def _turn(data: Buffer, out: Buffer, n: int, rows: int, columns: int, target: Target, threads: int) -> None:
    """Transpose ``n`` matrices; the last pieces overlap those before, so nothing beyond is touched."""
    lanes = min(16, target.lanes("uint8"))
    size = rows * columns
    if rows <= FEW and columns >= lanes:
        turns = ceil_div(columns, lanes)
        with tir.loop(n * turns, threads) as turn:
            start, at = T.Bind(turn // turns * size), T.Bind(tir.least(turn % turns * lanes, columns - lanes))
            read = [T.Bind(data[tir.vector(start + row * columns + at, lanes)]) for row in range(rows)]
            order = [row * lanes + lane for lane in range(lanes) for row in range(rows)]
            _store_lanes(out, start + at * rows, read, order, lanes)
        return
    if columns <= FEW and rows >= lanes:
        turns = ceil_div(rows, lanes)
        with tir.loop(n * turns, threads) as turn:
            start, at = T.Bind(turn // turns * size), T.Bind(tir.least(turn % turns * lanes, rows - lanes))
            place = start + at * columns
            read = [T.Bind(data[tir.vector(place + part * lanes, lanes)]) for part in range(columns)]
            for column in range(columns):
                order = [lane * columns + column for lane in range(lanes)]
                _store_lanes(out, start + column * rows + at, read, order, lanes)
        return
    side = next((side for side in SQUARES if min(lanes, rows, columns) >= side), None)
    if side is None:
        with tir.loop(n * columns, threads) as turn, T.serial(0, rows) as row:
            start, column = T.Bind(turn // columns * size), T.Bind(turn % columns)
            tir.store(out, data[start + row * columns + column], start + column * rows + row)
        return
    across = ceil_div(columns, side)
    with tir.loop(n * across, threads) as turn, T.serial(0, ceil_div(rows, side)) as down:
        start, column = T.Bind(turn // across * size), T.Bind(tir.least(turn % across * side, columns - side))
        row = T.Bind(tir.least(down * side, rows - side))
        square = [T.Bind(data[tir.vector(start + (row + at) * columns + column, side)]) for at in range(side)]
        for at, value in enumerate(_transposed(square)):
            tir.store(out, value, tir.vector(start + (column + at) * rows + row, side))


def _store_lanes(out: Buffer, at: Index, vectors: list[Vector], order: list[int], lanes: int) -> None:
    """Store the chosen lanes of ``vectors``, a vector at a time."""
    for first in range(0, len(order), lanes):
        # One after another: LLVM takes a shuffle of several vectors as pairs of them.
        tir.store(out, shuffle(vectors, order[first : first + lanes]), tir.vector(at + first, lanes))


def _transposed(rows: list[Vector]) -> list[Vector]:
    """As many vectors as they have lanes, transposed: those half the square apart are mixed each time."""
    lanes = len(rows)
    low = [at + half for at in range(lanes // 2) for half in (0, lanes)]
    high = [lane + lanes // 2 for lane in low]
    for _ in range(lanes.bit_length() - 1):
        pairs = zip(rows[: lanes // 2], rows[lanes // 2 :], strict=True)
        rows = [shuffle(pair, order) for pair in pairs for order in (low, high)]
    return rows
