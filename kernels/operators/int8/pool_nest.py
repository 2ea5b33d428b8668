"""Code of pooling bytes stored NHWC: windows side by side, whole vectors of channels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.elements import threads_for
from kernels.emit.tir import const, convert, registers
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.saturate import saturated
from kernels.operators.int8.scale import scaled
from kernels.operators.pool import Pool
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS

LONGEST_UNROLL = 8
"""Columns of a window that are reduced without a loop."""
SHORT_COUNT = 128
"""So many bytes, signed or not, add up in int16."""
TILE = {"max": 4, "average": 2}
"""Windows that are reduced side by side: maxima take one register each, sums at least two."""


MOST_WINDOWS = 1 << 16
"""Of rows or columns of windows, which are looked at one by one."""
MOST_PARTS = 1024
"""Of a plane's windows by what of them lies inside: each has code of its own."""


@dataclass(frozen=True)
class Mean:
    """How sums become results: zeros of data and result, (multiplier, shift) by count, type of the result."""

    zeros: tuple[int, int]
    factors: Mapping[int, tuple[int, int]]
    dtype: str


@dataclass(frozen=True)
class Run:
    """Neighbouring windows from ``first`` on, of which the same ``taps`` from ``offset`` on lie inside."""

    first: int
    number: int
    offset: int
    taps: int


def inside(pool: Pool, axis: int, at: int) -> tuple[int, int]:
    """(first, end) of the rows (axis 0) or columns (1) of the input that window ``at`` has."""
    start = at * pool.stride[axis] - pool.pad[axis]
    return max(0, start), min(pool.shape[2 + axis], start + pool.window[axis])


def runs(pool: Pool, axis: int) -> list[Run]:
    """The rows or columns of windows, in order."""
    windows = []
    for at in range(pool.out[axis]):
        first, end = inside(pool, axis, at)
        windows.append((first - (at * pool.stride[axis] - pool.pad[axis]), end - first))
    found, first = [], 0
    for (offset, taps), same in itertools.groupby(windows):
        number = len(list(same))
        found.append(Run(first, number, offset, taps))
        first += number
    return found


def why_not_emitted(pool: Pool) -> str | None:
    """Why there is no code for ``pool``, or None when there is."""
    if max(pool.out) > MOST_WINDOWS:
        return f"pooling has at most {MOST_WINDOWS} rows and columns of results, not {max(pool.out)}"
    parts = len(runs(pool, 0)) * len(runs(pool, 1))
    if parts > MOST_PARTS:
        return f"windows of {pool.window[0]}x{pool.window[1]} hang over the edges in {parts} ways, too many"
    return None


def count_of(pool: Pool, rows: int, columns: int) -> int:
    """The number of elements that the mean is of in a window with so many rows and columns inside."""
    return pool.window[0] * pool.window[1] if pool.counted else rows * columns


def counts(pool: Pool) -> list[int]:
    """The different numbers of elements that means are of, the largest first."""
    rows, columns = runs(pool, 0), runs(pool, 1)
    return sorted({count_of(pool, row.taps, column.taps) for row in rows for column in columns}, reverse=True)


def emit_pool(pool: Pool, data: Buffer, out: Buffer, mean: Mean | None, target: Target, threads: int) -> None:
    """Pool ``data`` to ``out``, both flat and NHWC; by maximum where there is no ``mean``."""
    n, c, h, w = pool.shape
    lanes = min(target.lanes("uint8"), 1 << (c.bit_length() - 1))
    threads = threads_for(math.prod(pool.shape), threads)
    groups, (rows, columns) = ceil_div(c, lanes), pool.out
    for row_run in runs(pool, 0):
        emitter = _Row(pool, data, out, mean, row_run, lanes, target)
        with tir.loop(n * row_run.number * groups, threads) as turn:
            line = T.Bind(turn // groups)
            image, row = T.Bind(line // row_run.number), T.Bind(line % row_run.number + row_run.first)
            channel = T.Bind(tir.least(turn % groups * lanes, c - lanes))
            top = T.Bind(row * pool.stride[0] + (row_run.offset - pool.pad[0]))
            source = T.Bind((image * h + top) * (w * c) + channel)
            to = T.Bind((image * rows + row) * (columns * c) + channel)
            for column_run in runs(pool, 1):
                emitter.run(column_run, source, to)


@dataclass(frozen=True)
class _Row:
    """Windows of one row, ``lanes`` channels each; ``rows`` says which of their rows lie inside."""

    pool: Pool
    data: Buffer
    out: Buffer
    mean: Mean | None
    rows: Run
    lanes: int
    target: Target

    def run(self, columns: Run, source: Buffer, to: Index) -> None:
        """The windows of ``columns``; ``source`` and ``to`` are where the first rows start."""
        tile = min(TILE[self.pool.kind], columns.number)
        turns = ceil_div(columns.number, tile)
        with T.serial(0, turns) as turn:
            first = T.Bind(tir.least(turn * tile, columns.number - tile) + columns.first)
            self._tile(first, tile, columns, source, to)

    def _tile(self, first: Index, tile: int, columns: Run, source: Buffer, to: Index) -> None:
        c, w, step = self.pool.shape[1], self.pool.shape[3], self.pool.stride[1]
        dtype = self._sum_dtype(self.rows.taps * columns.taps)
        sums = registers(tile * self.lanes, dtype)
        slots = [tir.vector(slot * self.lanes, self.lanes) for slot in range(tile)]
        start = const(0 if self.mean else LIMITS[str(self.data.dtype)][0], dtype, self.lanes)
        for slot in slots:
            tir.store(sums, start, slot)
        left = T.Bind(source + (first * step + (columns.offset - self.pool.pad[1])) * c)

        def tap(row: Index, column: Index) -> None:
            for number, slot in enumerate(slots):
                place = left + (row * w + number * step + column) * c
                value = self.data[tir.vector(place, self.lanes)]
                tir.store(sums, self._both(sums[slot], value, dtype), slot)

        with T.serial(0, self.rows.taps) as row:
            if columns.taps <= LONGEST_UNROLL:
                for column in range(columns.taps):
                    tap(row, column)
            else:
                with T.serial(0, columns.taps) as column:
                    tap(row, column)
        for number, slot in enumerate(slots):
            value = self._finished(sums[slot], self.rows.taps, columns.taps)
            tir.store(self.out, value, tir.vector(to + (first + number) * c, self.lanes))

    def _sum_dtype(self, taps: int) -> str:
        if self.mean is None:
            return str(self.data.dtype)
        return "int16" if taps <= SHORT_COUNT else "int32"

    def _both(self, one: Vector, other: Vector, dtype: str) -> Vector:
        return tirx.Max(one, other) if self.mean is None else one + convert(other, dtype, self.lanes)

    def _finished(self, value: Vector, rows: int, columns: int) -> Vector:
        """The result for the maximum or the sum of a window with so many rows and columns inside."""
        mean = self.mean
        if mean is None:
            return value
        multiplier, shift = mean.factors[count_of(self.pool, rows, columns)]
        value = convert(value, "int32", self.lanes)
        value = value - const(rows * columns * mean.zeros[0], lanes=self.lanes)
        whole = scaled(value, 255 * rows * columns, multiplier, shift, self.lanes, self.target)
        if mean.zeros[1]:
            whole = whole + const(mean.zeros[1], lanes=self.lanes)
        return saturated(whole, mean.dtype, LIMITS[mean.dtype], self.lanes)
