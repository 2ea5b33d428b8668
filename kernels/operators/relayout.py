"""Copying activations from one layout to another: transposes in registers, whole cache lines at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

from kernels.arithmetic import ceil_div
from kernels.emit import machine, tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, PrimFunc
from kernels.emit.vectors import transpose
from kernels.layout import NCHW, NHWC, block_of, stored_shape
from kernels.target import Target

UNROLLED_TILES = 4
"""Squares a side that one turn of the loop transposes at most; fewer where those cover a cache line."""
PIXELS_A_TURN = 16
"""Pixels of a block that follow each other in a copy between NHWC and blocks."""


@dataclass(frozen=True)
class _Matrices:
    """``count`` matrices of ``rows`` x ``columns`` one after another, each to be transposed."""

    count: int
    rows: int
    columns: int


def is_free(shape: tuple[int, ...], source: str, to: str) -> bool:
    """Whether a tensor of NCHW ``shape`` lies the same in both layouts, so that a reshape will do."""
    _, c, h, w = shape
    return source == to or h * w == 1 or channels_inside(source, c) == channels_inside(to, c)


def channels_inside(layout: str, channels: int) -> int:
    """How many channels of a pixel lie side by side; it is what tells layouts apart."""
    block = block_of(layout)
    return block or (channels if layout == NHWC else 1)


def predict_relayout(shape: tuple[int, ...], source: str, to: str, target: Target, threads: int = 1) -> float:
    """Predicted seconds of copying a tensor of NCHW ``shape`` between two layouts."""
    if is_free(shape, source, to):
        return 0.0
    elements, lanes = math.prod(shape), target.lanes()
    # Transposing hides behind loads and stores: on an AMD EPYC all pairs take about as long as a copy.
    work = elements / lanes * machine.move_cycles(target)
    cycles = machine.overlapped(work, machine.stream_cycles(target, 8 * elements, 8 * elements))
    return machine.seconds(target, machine.CALL_CYCLES + cycles / threads_for(elements, threads))


def build_relayout(
    shape: tuple[int, ...], source: str, to: str, target: Target, threads: int, name: str
) -> PrimFunc:
    """The PrimFunc ``name`` that copies a tensor of NCHW ``shape``: its arguments are the two stored arrays.

    Raises ValueError for layouts that do not fit the shape.
    """
    threads = threads_for(math.prod(shape), threads)
    shapes = {"data": stored_shape(source, shape), "out": stored_shape(to, shape)}
    function = Function(name, shapes)
    with function as (data, out):
        if NCHW in (source, to):
            _turn(_matrices(shape, source, to), data, out, target, threads)
        else:
            _regroup(shape, source, to, data, out, target, threads)
    return function.result()


def _matrices(shape: tuple[int, ...], source: str, to: str) -> _Matrices:
    """Channels by pixels, as often as there are blocks of channels; those of NHWC are one block."""
    n, c, h, w = shape
    inside = channels_inside(to if source == NCHW else source, c)
    count, pixels = n * (c // inside), h * w
    return _Matrices(count, inside, pixels) if source == NCHW else _Matrices(count, pixels, inside)


def _turn(matrices: _Matrices, data: Buffer, out: Buffer, target: Target, threads: int) -> None:
    """Transpose tile by tile; the last tiles overlap those before, so nothing beyond the edge is touched."""
    lanes, rows, columns = target.lanes(), matrices.rows, matrices.columns
    if lanes < 4 or rows < lanes or columns < lanes:
        with tir.loop(matrices.count, threads) as b, T.serial(0, columns) as j, T.serial(0, rows) as i:
            value = data[(b * rows + i) * columns + j]
            tir.store(out, value, (b * columns + j) * rows + i)
        return
    line = max(1, min(UNROLLED_TILES, target.line_bytes // 4 // lanes))
    tall, wide = lanes * min(line, rows // lanes), lanes * min(line, columns // lanes)
    row_tiles, column_tiles = ceil_div(rows, tall), ceil_div(columns, wide)
    with tir.loop(matrices.count * column_tiles, threads) as outer, T.serial(0, row_tiles) as row_tile:
        i = T.Bind(tir.least(row_tile * tall, rows - tall))
        j = T.Bind(tir.least(outer % column_tiles * wide, columns - wide))
        start = T.Bind(outer // column_tiles * (rows * columns))
        source, to = T.Bind(start + i * columns + j), T.Bind(start + j * rows + i)
        for down, right in product(range(0, tall, lanes), range(0, wide, lanes)):
            read = [
                T.Bind(data[tir.vector(source + (down + lane) * columns + right, lanes)])
                for lane in range(lanes)
            ]
            for lane, value in enumerate(transpose(read)):
                tir.store(out, value, tir.vector(to + (right + lane) * rows + down, lanes))


def _regroup(
    shape: tuple[int, ...], source: str, to: str, data: Buffer, out: Buffer, target: Target, threads: int
) -> None:
    """Between NHWC and blocks: the runs of a block's channels trade places."""
    n, c, h, w = shape
    pixels, block = h * w, channels_inside(to if source == NHWC else source, c)
    lanes, turn = math.gcd(block, target.lanes()), min(PIXELS_A_TURN, pixels)
    turns = ceil_div(pixels, turn)
    with tir.loop(n * turns, threads) as outer, T.serial(0, c // block) as group:
        image, first = T.Bind(outer // turns), T.Bind(tir.least(outer % turns * turn, pixels - turn))
        with T.serial(0, turn) as pixel:
            plain = T.Bind((image * pixels + first + pixel) * c + group * block)
            blocked = T.Bind(((image * (c // block) + group) * pixels + first + pixel) * block)
            read, write = (plain, blocked) if source == NHWC else (blocked, plain)
            for lane in range(0, block, lanes):
                tir.store(out, data[tir.vector(read + lane, lanes)], tir.vector(write + lane, lanes))
