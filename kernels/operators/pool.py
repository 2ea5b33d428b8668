"""Max and average pooling in every layout, by whole vectors: of channels, or of a plane's columns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.emit import machine, tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.row_copy import load_stepped
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, PrimFunc, Vector
from kernels.layout import NCHW, stored_shape
from kernels.operators.relayout import channels_inside
from kernels.target import Target

TILE = 4
"""Vectors that are reduced side by side, so that none waits for its own last result."""
LONGEST_UNROLL = 8
"""Columns of a window that are reduced without a loop."""
ROW_CYCLES = 10
"""Starting a row of windows: its first and last row of input, loop control."""


@dataclass(frozen=True)
class Pool:
    """Pooling ``shape`` (NCHW) to ``out`` (rows, columns) by windows; what of them lies outside is left out.

    ``kind`` is ``max`` or ``average``; ``pad`` is (top, left), the other sides follow from ``out``.
    ``counted``: an average divides by the window's size even where the window hangs over an edge.
    """

    kind: str
    shape: tuple[int, ...]
    out: tuple[int, int]
    window: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    counted: bool = False

    @property
    def out_shape(self) -> tuple[int, ...]:
        """(n, c, rows, columns) of the result."""
        return (*self.shape[:2], *self.out)

    @property
    def whole(self) -> bool:
        """Whether the one window is the plane."""
        return self.out == (1, 1) and self.window == self.shape[2:] and self.pad == (0, 0)

    def columns(self, at: int) -> tuple[int, int]:
        """(first, end) of the columns of window ``at`` that lie inside."""
        left = at * self.stride[1] - self.pad[1]
        return max(0, -left), min(self.window[1], self.shape[3] - left)

    def why_not(self) -> str | None:
        """Why it cannot be computed: a window without any element."""
        for axis in (0, 1):
            last = (self.out[axis] - 1) * self.stride[axis] - self.pad[axis]
            if self.pad[axis] >= self.window[axis] or last >= self.shape[2 + axis]:
                return "a window lies outside of the plane"
        return None


def predict_pool(pool: Pool, layout: str, target: Target, threads: int = 1) -> float:
    """Predicted seconds."""
    elements, lanes = math.prod(pool.shape), target.lanes()
    outputs = math.prod(pool.out_shape)
    rows, columns = pool.window
    if layout == NCHW:
        # Down the columns by whole vectors, then along the row; there steps are shuffles.
        along = columns * (1 if pool.stride[1] == 1 else 4)
        vectors = outputs * (rows * pool.stride[1] + along) / min(lanes, pool.shape[3])
        starts: float = math.prod(pool.out_shape[:3])
    else:
        vectors = outputs * rows * columns / lanes
        starts = math.prod(pool.out_shape) / channels_inside(layout, pool.shape[1])
    work = vectors / target.loads_per_cycle + starts * ROW_CYCLES
    size = 4 * (elements + outputs)
    cycles = machine.overlapped(work, machine.stream_cycles(target, size, size))
    return machine.seconds(target, cycles / threads_for(elements, threads))


def build_pool(pool: Pool, layout: str, target: Target, threads: int, name: str) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are input and output, both stored in ``layout``."""
    threads = threads_for(math.prod(pool.shape), threads)
    shapes = {"data": stored_shape(layout, pool.shape), "out": stored_shape(layout, pool.out_shape)}
    function = Function(name, shapes)
    with function as (data, out):
        emitter = _Emitter(pool, data, out, target.lanes())
        if layout != NCHW:
            emitter.channels(layout, threads)
        elif pool.whole:
            emitter.whole_planes(threads)
        else:
            emitter.planes(threads)
    return function.result()


class _Emitter:
    def __init__(self, pool: Pool, data: Buffer, out: Buffer, lanes: int) -> None:
        self.pool, self.data, self.out, self.lanes = pool, data, out, lanes
        self.identity = -math.inf if pool.kind == "max" else 0.0

    def channels(self, layout: str, threads: int) -> None:
        """Windows of channels that lie side by side: row by row, and along it tile by tile."""
        n, c, h, w = self.pool.shape
        inside = channels_inside(layout, c)
        # NHWC: all of a pixel's channels in turn. Blocks: one after another, each a plane of its own.
        images = n * (c // inside)
        lanes = self.lanes if inside >= self.lanes else 1
        rows, columns = self.pool.out
        with tir.loop(images * rows, threads) as outer:
            image, row = T.Bind(outer // rows), T.Bind(outer % rows)
            with self._rows(row) as (top, count):
                start = T.Bind((image * h + top) * (w * inside))
                to = T.Bind(outer * (columns * inside))
                with T.serial(0, ceil_div(inside, lanes)) as group:
                    at = T.Bind(tir.least(group * lanes, inside - lanes))
                    for first, number in self._runs():
                        self._run(first, number, start + at, to + at, count, inside, lanes)

    def _runs(self) -> Iterator[tuple[int, int]]:
        """(first, number) of neighbouring windows with the same columns inside."""
        columns = self.pool.out[1]
        first = 0
        for at in range(1, columns + 1):
            if at == columns or self.pool.columns(at) != self.pool.columns(first):
                yield first, at - first
                first = at

    def _run(
        self, first: int, number: int, source: Buffer, to: Index, count: Index, inside: int, lanes: int
    ) -> None:
        tile = min(TILE, number)
        if number > tile:
            with T.serial(0, ceil_div(number, tile)) as turn:
                at = T.Bind(tir.least(turn * tile, number - tile) + first)
                self._tile(at, tile, self.pool.columns(first), source, to, count, inside, lanes)
        else:
            self._tile(first, tile, self.pool.columns(first), source, to, count, inside, lanes)

    def _tile(
        self,
        at: Index,
        tile: int,
        taps: tuple[int, int],
        source: Buffer,
        to: Index,
        count: Index,
        inside: int,
        lanes: int,
    ) -> None:
        """Windows ``at`` to ``at + tile`` of a row; ``count`` rows of input, ``taps`` the columns inside."""
        w, step = self.pool.shape[3], self.pool.stride[1]
        sums = tir.registers(tile * lanes)
        slots = [tir.vector(slot * lanes, lanes) for slot in range(tile)]
        for slot in slots:
            tir.store(sums, tir.splat(tir.number(self.identity), lanes), slot)
        left = T.Bind(source + (at * step - self.pool.pad[1] + taps[0]) * inside)
        with T.serial(0, count) as row, self._taps(taps[1] - taps[0]) as offsets:
            for offset in offsets:
                for number, slot in enumerate(slots):
                    place = left + (row * w + number * step + offset) * inside
                    tir.store(sums, self._both(sums[slot], self.data[tir.vector(place, lanes)]), slot)
        for number, slot in enumerate(slots):
            value = self._mean(sums[slot], count, taps[1] - taps[0], lanes)
            tir.store(self.out, value, tir.vector(to + (at + number) * inside, lanes))

    def planes(self, threads: int) -> None:
        """Planes of NCHW: each row of windows is reduced down the columns first, then along the row."""
        pool = self.pool
        n, c, h, w = pool.shape
        rows, columns = pool.out
        length = max((columns - 1) * pool.stride[1] + pool.window[1], pool.pad[1] + w)
        with tir.loop(n * c, threads) as plane:
            line = tir.scratch(length)
            for edge in (*range(pool.pad[1]), *range(pool.pad[1] + w, length)):
                tir.store(line, tir.number(self.identity), edge)
            with T.serial(0, rows) as row, self._rows(row) as (top, count):
                self._down(line, T.Bind((plane * h + top) * w), count)
                self._along(line, T.Bind((plane * rows + row) * columns), count)

    def _down(self, line: Index, start: Index, count: Index) -> None:
        w = self.pool.shape[3]
        lanes = min(self.lanes, _power_below(w))
        tile = min(TILE, w // lanes)
        with T.serial(0, ceil_div(w, tile * lanes)) as turn:
            at = T.Bind(tir.least(turn * (tile * lanes), w - tile * lanes))
            sums = tir.registers(tile * lanes)
            slots = [tir.vector(slot * lanes, lanes) for slot in range(tile)]
            for slot in slots:
                tir.store(sums, tir.splat(tir.number(self.identity), lanes), slot)
            with T.serial(0, count) as row:
                for number, slot in enumerate(slots):
                    value = self.data[tir.vector(start + row * w + at + number * lanes, lanes)]
                    tir.store(sums, self._both(sums[slot], value), slot)
            for number, slot in enumerate(slots):
                tir.store(line, sums[slot], tir.vector(at + (self.pool.pad[1] + number * lanes), lanes))

    def _along(self, line: Index, to: Index, count: Index) -> None:
        columns, step, taps = self.pool.out[1], self.pool.stride[1], self.pool.window[1]
        lanes = min(self.lanes, _power_below(columns)) if step <= 2 else 1
        with T.serial(0, ceil_div(columns, lanes)) as turn:
            at = T.Bind(tir.least(turn * lanes, columns - lanes))
            value = load_stepped(line, at * step, lanes, step)
            for offset in range(1, taps):
                value = self._both(value, load_stepped(line, at * step + offset, lanes, step))
            tir.store(self.out, self._mean(value, count, taps, lanes), tir.vector(to + at, lanes))
        if self.pool.kind == "average" and not self.pool.counted:
            for at in range(columns):
                first, end = self.pool.columns(at)
                if end - first < taps:
                    value = self.out[to + at] * tir.number(taps / (end - first))
                    tir.store(self.out, value, to + at)

    def whole_planes(self, threads: int) -> None:
        """One value a plane of NCHW."""
        n, c, h, w = self.pool.shape
        size = h * w
        lanes = min(self.lanes, _power_below(size))
        tile = min(TILE, size // lanes)
        width = tile * lanes
        with tir.loop(n * c, threads) as plane:
            sums = tir.registers(width)
            slots = [tir.vector(slot * lanes, lanes) for slot in range(tile)]
            for slot in slots:
                tir.store(sums, tir.splat(tir.number(self.identity), lanes), slot)
            with T.serial(0, size // width) as turn:
                for number, slot in enumerate(slots):
                    value = self.data[tir.vector(plane * size + turn * width + number * lanes, lanes)]
                    tir.store(sums, self._both(sums[slot], value), slot)
            with T.serial(size // width * width, size) as rest:
                tir.store(sums, self._both(sums[0], self.data[plane * size + rest]), 0)
            value = sums[0]
            for lane in range(1, width):
                value = self._both(value, sums[lane])
            tir.store(self.out, self._mean(value, h, w, 1), plane)

    @contextmanager
    def _rows(self, row: Index) -> Iterator[tuple[Index, Index]]:
        """(first, number) of the input's rows inside the windows of output row ``row``."""
        top = row * self.pool.stride[0] - self.pool.pad[0]
        h, taps = self.pool.shape[2], self.pool.window[0]
        inside = self.pool.pad[0] == 0 and (self.pool.out[0] - 1) * self.pool.stride[0] + taps <= h
        if inside:
            yield T.Bind(top), taps
        else:
            first = T.Bind(tirx.Max(top, tir.index(0)))
            yield first, T.Bind(tirx.Min(top + taps, tir.index(h)) - first)

    @contextmanager
    def _taps(self, number: int) -> Iterator[list[Vector]]:
        if number <= LONGEST_UNROLL:
            yield list(range(number))
        else:
            with T.serial(0, number) as offset:
                yield [offset]

    def _both(self, one: Vector, other: Vector) -> Vector:
        return tirx.Max(one, other) if self.pool.kind == "max" else one + other

    def _mean(self, value: Vector, rows: Index, columns: int, lanes: int) -> Vector:
        """``value`` over the number of elements of a window with so many rows and columns inside."""
        if self.pool.kind == "max":
            return value
        if self.pool.counted:
            rows, columns = self.pool.window
        if isinstance(rows, int):
            return value * tir.splat(tir.number(1.0 / (rows * columns)), lanes)
        share = tir.number(1.0) / (rows.astype(tir.F32) * tir.number(float(columns)))
        return value * tir.splat(share, lanes)


def _power_below(count: int) -> int:
    """The largest power of two up to ``count``."""
    return 1 << (count.bit_length() - 1)
