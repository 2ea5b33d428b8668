"""Winograd's input transform: the tiles of a block, one vector of channels after another."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.emit import tir
from kernels.emit.shares import turns
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import load_part, transpose
from kernels.float.plan import Arguments
from kernels.float.winograd.pixels import Pixels
from kernels.float.winograd.plan import Plan
from kernels.float.winograd.transform import Transform


class InputTransform:
    """Emits the transform of one block: rows of tiles, first down their columns, then along their rows.

    The columns of a row of tiles are transformed once for all tiles that they are part of. In NCHW, the rows
    of a vector of channels are first turned into vectors of channels.
    """

    def __init__(self, plan: Plan, args: Arguments, transformed: Buffer, threads: int) -> None:
        self.plan, self.conv, self.args, self.lanes = plan, plan.conv, args, plan.lanes
        self.transformed, self.threads = transformed, threads
        self.pixels = Pixels.of(plan.layouts.data, plan.conv.data_shape, plan.lanes)

    def run(self, image: Index, row: Index, column: Index) -> None:
        """The block whose first tile is in that row and column of tiles."""
        plan, conv, lanes = self.plan, self.conv, self.lanes
        height, width = plan.in_rows, plan.in_columns
        self.left = conv.pad[1] - column * plan.step
        low = tirx.Max(tir.index(0), self.left) if plan.grid[1] > 1 else self.left
        high = tir.least(width, conv.in_w + self.left)
        self.low, self.high = (at if isinstance(at, int) else T.Bind(at) for at in (low, high))
        self.image, self.top = image, T.Bind(row * plan.step - conv.pad[0])
        with tir.loop(self.threads, self.threads) as thread:
            self.turned = None if self.pixels else tir.scratch(height * width * lanes)
            self.lines = tir.scratch(plan.tile_rows * width * lanes)
            self._pad()
            with turns(plan.in_vectors, thread, self.threads) as channels:
                if self.turned is not None:
                    self._turn(channels)
                with tir.loop(plan.block_rows) as tiles:
                    self._down(channels, tiles)
                    self._along(channels, tiles)

    def _pad(self) -> None:
        """The transform of padding left and right is zero, and stays so through all channels."""
        plan = self.plan
        for first, end in ((0, self.low), (self.high, plan.in_columns)):
            if isinstance(first, int) and isinstance(end, int) and first >= end:
                continue
            with tir.loop(plan.tile_rows) as line, T.serial(tir.index(first), tir.index(end)) as x:
                self._set_line(line, x, tir.zeros(self.lanes))

    def _set_line(self, line: Index, x: Index, value: Vector) -> None:
        at = (line * self.plan.in_columns + x) * self.lanes
        tir.store(self.lines, value, tir.vector(at, self.lanes))

    def _down(self, channels: Index, tiles: Index) -> None:
        """The columns of a row of tiles."""
        plan, conv = self.plan, self.conv
        source = T.Bind(self.top + tiles * plan.step)
        inside = [tirx.all(source + k >= 0, source + k < conv.in_h) for k in range(plan.tile_rows)]

        def columns(checked: bool) -> None:
            with T.serial(tir.index(self.low), tir.index(self.high)) as x:
                buffer, at, pitch = self._column(channels, tiles, source, x)
                values = [buffer[tir.vector(at + k * pitch, self.lanes)] for k in range(plan.tile_rows)]
                if checked:
                    zeros = tir.zeros(self.lanes)
                    values = [
                        tirx.if_then_else(there, value, zeros)
                        for there, value in zip(inside, values, strict=True)
                    ]
                for line, value in enumerate(self._transform(plan.transforms[0], values)):
                    self._set_line(line, x, value)

        tir.choose(
            tirx.all(source >= 0, source + plan.tile_rows <= conv.in_h),
            lambda: columns(False),
            lambda: columns(True),
        )

    def _column(self, channels: Index, tiles: Index, source: Index, x: Index) -> tuple[Buffer, Index, int]:
        """Where a tile's column is: a buffer, the element, and elements to the next row."""
        plan, lanes = self.plan, self.lanes
        if self.pixels is None:
            return (
                self.turned,
                T.Bind((tiles * plan.step * plan.in_columns + x) * lanes),
                plan.in_columns * lanes,
            )
        return (
            self.args.data,
            T.Bind(self.pixels.at(self.image, channels, source, x - self.left)),
            self.pixels.row,
        )

    def _along(self, channels: Index, tiles: Index) -> None:
        """The rows of a row of tiles."""
        plan, lanes = self.plan, self.lanes
        with tir.loop(plan.tile_rows) as line, tir.loop(plan.block_columns) as x:
            start = T.Bind((line * plan.in_columns + x * plan.step) * lanes)
            values = [self.lines[tir.vector(start + j * lanes, lanes)] for j in range(plan.tile_columns)]
            tile = plan.at(channels, tiles * plan.block_columns + x)
            at = T.Bind(line * (plan.tile_columns * plan.in_pitch) + tile)
            for j, value in enumerate(self._transform(plan.transforms[1], values)):
                tir.store(self.transformed, value, tir.vector(at + j * plan.in_pitch, lanes))

    def _transform(self, transform: Transform, values: Sequence[Vector]) -> list[Vector]:
        def times(factor: float, value: Vector) -> Vector:
            return tir.splat(tir.number(factor), self.lanes) * value

        return transform.forward([T.Bind(value) for value in values], times)

    def _turn(self, channels: Index) -> None:
        """The block's rows of a vector of channels in NCHW to [row][column][channel], those there are."""
        plan, conv, lanes = self.plan, self.conv, self.lanes
        with tir.loop(plan.in_rows) as y:
            source = T.Bind(self.top + y)
            with tir.when(tirx.all(source >= 0, source < conv.in_h)):
                starts = []
                for lane in range(lanes):
                    # Missing channels read the last one: their results meet no weights.
                    channel = channels * lanes + lane
                    if conv.in_c % lanes:
                        channel = tir.least(channel, conv.in_c - 1)
                    plane = (self.image * conv.in_c + channel) * conv.in_h + source
                    starts.append(T.Bind(plane * conv.in_w - self.left))
                self._turn_row(T.Bind(y * (plan.in_columns * lanes)), starts)

    def _turn_row(self, base: Index, starts: Sequence[Index]) -> None:
        """Columns low..high of one row of some channels to vectors of channels."""
        lanes, data, low, high = self.lanes, self.args.data, self.low, self.high

        def group(at: Index, count: int = lanes) -> None:
            rows = [T.Bind(load_part(data, start + at, count, lanes)) for start in starts]
            for lane, value in enumerate(transpose(rows)[:count]):
                tir.store(self.turned, value, tir.vector(base + (at + lane) * lanes, lanes))

        def groups() -> None:
            with tir.loop((high - low) // lanes) as turn:
                group(T.Bind(low + turn * lanes))
            # The last group overlaps the one before it.
            if not isinstance(high - low, int) or (high - low) % lanes:
                group(tir.index(high - lanes))

        if isinstance(low, int) and isinstance(high, int):
            if high - low >= lanes:
                groups()
            elif high > low:
                group(tir.index(low), high - low)
            return
        with T.If(high - low >= lanes):
            with T.Then():
                groups()
            with T.Else(), T.serial(low, tirx.Max(low, high)) as at:
                for lane, start in enumerate(starts):
                    tir.store(self.turned, data[start + at], base + at * lanes + lane)
