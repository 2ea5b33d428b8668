"""The loops of a chain (seed 004): slices, in each all channels of the first convolution before the second.

What is computed in them differs between floats and integers; ``Work`` is what a family supplies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from kernels.chains.slices import COLUMNS, Slices, taken
from kernels.emit import tir
from kernels.emit.tvm import T, tirx, tvm
from kernels.emit.types import Expr, Index
from kernels.workload.geometry import ConvGeometry

FIRST, SECOND = 0, 1
"""The two convolutions."""


@dataclass(frozen=True)
class Place:
    """A row of up to 8 windows: row ``source`` of what is read and row ``out`` of what is written, from block
    ``column`` on; ``filters`` is where the filters are, ``block`` the block of 32 channels in all and
    ``inner`` that in the slice."""

    source: Index
    out: Index
    column: Index
    filters: Index
    block: Index
    inner: Index
    blocks: int = 1
    """Blocks of channels that are computed together."""


class Work(Protocol):
    """What is done in the loops; ``stage`` is ``FIRST`` or ``SECOND``."""

    def allocate(self) -> None:
        """Make the caches, and fill the padding of the one between with zeros."""

    def read(self, image: Index, row: Index, line: Index) -> None:
        """Row ``line`` of the input, which is inside it, to ``row`` of its cache, with the padding."""

    def blank(self, row: Index) -> None:
        """Zeros in a row of the input's cache."""

    def ready(self, stage: int, rows: Index) -> None:
        """The cache that a convolution reads has so many rows."""

    def together(self, stage: int) -> int:
        """Blocks of channels that are computed together; all slices of channels have a multiple."""

    def filters(self, stage: int, block: Index, inner: Index) -> None:
        """Bring the filters of a block of channels to block ``inner`` of their cache."""

    def filters_at(self, stage: int, block: Index, inner: Index) -> Index:
        """Where the filters of that block are."""

    def windows(self, stage: int, place: Place, count: int) -> None:
        """Compute ``count`` windows."""

    def blank_windows(self, place: Place, count: int) -> None:
        """Zeros where ``windows`` of the first convolution would write."""

    def move_between(self, source: Index, row: Index) -> None:
        """A row of the cache between to another."""

    def write(self, image: Index, row: Index, line: Index, first: Index, blocks: Index) -> None:
        """``row`` of the result's cache to row ``line`` of the result, ``blocks`` of channels from the
        ``first`` on."""


@contextmanager
def named(extent: Index, name: str, threads: int = 1) -> Iterator[Expr]:
    """A loop that has its name of the seed."""
    with tir.loop(extent, threads) as index:
        tvm.script.ir_builder.IRBuilder.name(name, index)
        yield index


class ChainNest:
    """Emits the loops of one function."""

    def __init__(self, slices: Slices, threads: int, work: Work) -> None:
        self.slices, self.threads, self.work = slices, threads, work

    def emit(self) -> None:
        """Slices of channels of the result, in each slices of rows; threads share out the latter."""
        slices, alone = self.slices, self.threads == 1
        if alone:
            self.work.allocate()
        with (
            tir.loop(slices.second.n) as image,
            named(slices.channel_slices(slices.second), "ko.outer") as channels,
            named(slices.count, "ho.outer", self.threads) as number,
        ):
            if not alone:
                self.work.allocate()
            self._slice(image, channels, number)

    def _slice(self, image: Index, channels: Index, number: Index) -> None:
        slices, two = self.slices, self.slices.second
        line = T.Bind(number * slices.rows)
        rows = slices.rows
        if two.out_h % rows:
            rows = T.Bind(tir.least(slices.rows, two.out_h - line))
        # Where the cache between begins, in rows of the first result.
        top = T.Bind(line * two.stride[0] - two.pad[0])
        begin: Index = 0
        if slices.overlap:
            begin = T.Bind(tirx.if_then_else(number > 0, tir.index(slices.overlap), tir.index(0)))
            with tir.loop(begin) as row:
                self.work.move_between(row + slices.rows * two.stride[0], row)
        self._first(image, top, begin, taken(two, rows))
        self.work.ready(SECOND, taken(two, rows))
        blocks = self._blocks(two, channels)
        first = channels * slices.k_split
        with named(blocks, "ko.inner") as inner:
            self._filters(SECOND, first + inner, inner)
        step = self.work.together(SECOND)
        with named(blocks // step, "ko.c.inner") as inner:
            self._rows(SECOND, rows, 0, 0, first + inner * step, inner * step, None)
        with named(rows, "ho.inner_1") as row:
            self.work.write(image, row, line + row, first, blocks)

    def _first(self, image: Index, top: Index, begin: Index, end: Index) -> None:
        """The first convolution's rows from ``begin`` to ``end`` of the cache between."""
        slices, one = self.slices, self.slices.first
        parts = slices.channel_slices(one)
        if slices.runs == 1:
            # The input is read once for all channels.
            self._input(image, top, begin, end - begin)
            with named(parts, "ko.outer_1") as channels:
                self._channels(channels, top, begin, end - begin)
            return
        with named(parts, "ko.outer_1") as channels:
            runs = T.Bind((tir.index(end - begin) + slices.rows - 1) // slices.rows)
            with named(runs, "ho.outer_1") as run:
                start = T.Bind(begin + run * slices.rows)
                rows = T.Bind(tir.least(slices.rows, end - start))
                self._input(image, top, start, rows)
                self._channels(channels, top, start, rows)

    def _input(self, image: Index, top: Index, start: Index, rows: Index) -> None:
        """What ``rows`` rows of the first result from row ``start`` of the cache between on need."""
        one = self.slices.first
        first = T.Bind((top + start) * one.stride[0] - one.pad[0])
        count = taken(one, rows)
        with named(count, "ho.inner") as row:
            line = T.Bind(first + row)
            inside = self._inside(line, one.in_h, one, self.slices.second)
            tir.choose(inside, lambda: self.work.read(image, row, line), lambda: self.work.blank(row))
        self.work.ready(FIRST, count)

    def _channels(self, channels: Index, top: Index, start: Index, rows: Index) -> None:
        one, first = self.slices.first, channels * self.slices.k_split
        blocks = self._blocks(one, channels)
        with named(blocks, "ko.inner") as inner:
            self._filters(FIRST, first + inner, inner)
        step = self.work.together(FIRST)
        with named(blocks // step, "ko.inner_1") as inner:
            self._rows(FIRST, rows, start, top, first + inner * step, inner * step, self.slices.second)

    def _blocks(self, part: ConvGeometry, channels: Index) -> Index:
        """Blocks of channels of slice ``channels``; the last slice may have fewer."""
        total, most = self.slices.channel_blocks(part), self.slices.k_split
        if total % most == 0:
            return most
        if total < most:
            return total
        return T.Bind(tir.least(most, total - channels * most))

    def _filters(self, stage: int, block: Index, inner: Index) -> None:
        self.work.filters(stage, T.Bind(tir.index(block)), inner)

    def _rows(
        self,
        stage: int,
        rows: Index,
        start: Index,
        top: Index,
        block: Index,
        inner: Index,
        reader: ConvGeometry | None,
    ) -> None:
        """``rows`` rows of a block of channels, in blocks of rows and of columns."""
        part = self.slices.second if stage == SECOND else self.slices.first
        height = self.slices.height
        block = T.Bind(tir.index(block))
        filters = self.work.filters_at(stage, block, inner)
        whole, rest = divmod(part.out_w, COLUMNS)
        known = isinstance(rows, int)
        turns = -(-rows // height) if known else (rows + height - 1) // height

        def line(outer: Index, column: Index, count: int) -> None:
            here = height if known and rows % height == 0 else tir.least(height, rows - outer * height)
            with named(here, "hi") as hi:
                row = T.Bind(outer * height + hi)
                out = T.Bind(tir.index(start + row))
                source = T.Bind(row * part.stride[0])
                place = Place(source, out, column, filters, block, inner, self.work.together(stage))

                def compute() -> None:
                    self.work.windows(stage, place, count)

                if reader is None:
                    compute()
                    return
                inside = self._inside(T.Bind(top + out), part.out_h, reader)
                tir.choose(inside, compute, lambda: self.work.blank_windows(place, count))

        with named(turns, "ho.inner") as outer:
            if whole:
                with named(whole, "wo") as column:
                    line(outer, column, COLUMNS)
            if rest:
                line(outer, whole, rest)

    def _inside(self, line: Index, height: int, *readers: ConvGeometry) -> Expr | None:
        """Whether a row is one of ``height``; None where all are that are asked for."""
        if not any(part.pad[0] or part.pad[2] for part in readers):
            return None
        return tirx.all(line >= 0, line < height)
