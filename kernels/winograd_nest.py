"""The loop nest of a Winograd convolution: blocks of tiles through transform, matrix products, transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.vectors import load_part, split, transpose
from kernels.winograd_plan import Plan, tile_grid
from kernels.winograd_transform import twice


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: tir.Arguments, threads: int) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        # Where blocks are too few to keep the threads busy, these share the channels and the points of each.
        turns = -(-plan.blocks // threads)
        self.outer = threads if plan.blocks >= 0.75 * turns * threads else 1
        self.inner = threads if self.outer == 1 else 1

    def run(self) -> None:
        """All blocks, shared out over the threads."""
        plan = self.plan
        with tir.loop(self.outer, self.outer) as thread:
            self.transformed = tir.scratch(plan.points * plan.in_pitch)
            self.products = tir.scratch(plan.points * plan.out_pitch)
            with _share(plan.blocks, thread, self.outer) as block:
                self._block(block)

    def _block(self, block: Any) -> None:
        plan = self.plan
        down, across = plan.grid
        tiles_down, tiles_across = tile_grid(self.conv, plan.m)
        image = T.Bind(block // (down * across))
        row = T.Bind(tir.least(block // across % down * plan.block_rows, tiles_down - plan.block_rows))
        column: Any = 0
        if across > 1:
            start = block % across * plan.block_columns
            column = T.Bind(tir.least(start, tiles_across - plan.block_columns))
        self._forward(image, row, column)
        self._multiply()
        self._backward(image, row, column)

    def _forward(self, image: Any, row: Any, column: Any) -> None:
        """Each vector of channels: its rows to [row][column][channel] with padding, then every tile."""
        plan, lanes, conv = self.plan, self.plan.lanes, self.conv
        height, width = plan.in_rows, plan.in_columns
        left = conv.pad[1] - column * plan.step
        low = max(0, left) if isinstance(left, int) else T.Bind(tirx.Max(tir.index(0), left))
        high = tir.least(width, conv.in_w + left)
        high = high if isinstance(high, int) else T.Bind(high)
        with tir.loop(self.inner, self.inner) as thread:
            local = tir.scratch(height * width * lanes)
            # The padding left and right stays as it is; rows are overwritten between.
            with tir.loop(height * width) as at:
                tir.store(local, tir.zeros(lanes), tir.vector(at * lanes, lanes))
            with _share(plan.in_vectors, thread, self.inner) as channels:
                with tir.loop(height) as y:
                    source = T.Bind(row * plan.step - conv.pad[0] + y)
                    base = T.Bind(y * (width * lanes))
                    with T.If(tirx.all(source >= 0, source < conv.in_h)):
                        with T.Then():
                            starts = self._row_starts(image, channels, source, left)
                            self._gather(local, base, starts, low, high)
                        with T.Else(), tir.loop(width) as x:
                            tir.store(local, tir.zeros(lanes), tir.vector(base + x * lanes, lanes))
                with tir.loop(plan.block_rows) as y, tir.loop(plan.block_columns) as x:
                    self._forward_tile(local, y, x, width, channels)

    def _row_starts(self, image: Any, channels: Any, source: Any, left: Any) -> list[Any]:
        """Where the block's column 0 lies in one input row of each of a vector's channels.

        Missing channels read the last one: their results meet no weights.
        """
        conv, lanes = self.conv, self.plan.lanes
        starts = []
        for lane in range(lanes):
            channel = channels * lanes + lane
            if conv.in_c % lanes:
                channel = tir.least(channel, conv.in_c - 1)
            starts.append(T.Bind(((image * conv.in_c + channel) * conv.in_h + source) * conv.in_w - left))
        return starts

    def _gather(self, local: Any, base: Any, starts: Sequence[Any], low: Any, high: Any) -> None:
        """Turn columns low..high of one row of some channels into vectors of channels."""
        lanes, data = self.plan.lanes, self.args.data

        def group(at: Any, count: int = lanes) -> None:
            rows = [T.Bind(load_part(data, start + at, count, lanes)) for start in starts]
            for lane, value in enumerate(transpose(rows)[:count]):
                tir.store(local, value, tir.vector(base + (at + lane) * lanes, lanes))

        def groups() -> None:
            with tir.loop((high - low) // lanes) as turn:
                group(T.Bind(low + turn * lanes))
            # The last group overlaps the one before it.
            if not isinstance(high, int) or (high - low) % lanes:
                group(tir.index(high - lanes))

        if isinstance(high, int):
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
                    tir.store(local, data[start + at], base + at * lanes + lane)

    def _forward_tile(self, local: Any, y: Any, x: Any, width: int, channels: Any) -> None:
        plan, lanes = self.plan, self.plan.lanes
        base = T.Bind((y * width + x) * (plan.step * lanes))
        result = self._transform(
            lambda line: plan.transform.forward(line, self._times),
            lambda i, j: local[tir.vector(base + (i * width + j) * lanes, lanes)],
        )
        at = T.Bind((y * plan.block_columns + x) * plan.in_row + channels * lanes)
        for i, j, value in result:
            point = (i * plan.tile + j) * plan.in_pitch
            tir.store(self.transformed, value, tir.vector(at + point, lanes))

    def _transform(
        self, one: Callable[[Sequence[Any]], list[Any]], load: Callable[[int, int], Any]
    ) -> list[tuple[int, int, Any]]:
        """(row, column, value) of a transformed tile of vectors."""
        side = range(self.plan.tile)
        result = twice(one, [[T.Bind(load(i, j)) for j in side] for i in side], T.Bind)
        return [(i, j, value) for i, line in enumerate(result) for j, value in enumerate(line)]

    def _times(self, factor: float, value: Any) -> Any:
        return tir.splat(tir.number(factor), self.plan.lanes) * value

    def _multiply(self) -> None:
        """For each point: transformed tiles x channels by channels x filters."""
        plan = self.plan
        whole, rest = divmod(plan.tiles, plan.rows)
        with (
            tir.loop(self.inner, self.inner) as thread,
            _share(plan.points, thread, self.inner) as point,
            tir.loop(plan.panels) as panel,
        ):
            with tir.loop(whole) as group:
                self._micro(plan.rows, point, panel, T.Bind(group * plan.rows))
            if rest:
                self._micro(rest, point, panel, tir.index(whole * plan.rows))

    def _micro(self, rows: int, point: Any, panel: Any, first: Any) -> None:
        plan, lanes = self.plan, self.plan.lanes
        cells = [(row, vector) for row in range(rows) for vector in range(plan.vectors)]
        slots = {cell: tir.vector(slot * lanes, lanes) for slot, cell in enumerate(cells)}
        registers = tir.registers(len(cells) * lanes)
        for slot in slots.values():
            tir.store(registers, tir.zeros(lanes), slot)
        tiles = T.Bind(point * plan.in_pitch + first * plan.in_row)
        weights = T.Bind((point * plan.panels + panel) * (self.conv.in_c * plan.width))
        with tir.loop(self.conv.in_c) as channel:
            for (row, vector), slot in slots.items():
                value = tir.splat(self.transformed[tiles + row * plan.in_row + channel], lanes)
                at = weights + channel * plan.width + vector * lanes
                product = value * self.args.weights[tir.vector(at, lanes)]
                tir.store(registers, registers[slot] + product, slot)
        target = T.Bind(point * plan.out_pitch + first * plan.out_row + panel * plan.width)
        for (row, vector), slot in slots.items():
            at = target + row * plan.out_row + vector * lanes
            tir.store(self.products, registers[slot], tir.vector(at, lanes))

    def _backward(self, image: Any, row: Any, column: Any) -> None:
        """Each vector of filters: every tile to [row][column][filter], then its rows to the output."""
        plan, lanes, conv = self.plan, self.plan.lanes, self.conv
        height, width = plan.block_rows * plan.m, plan.block_columns * plan.m
        columns = conv.out_w if plan.grid[1] == 1 else tir.least(width, conv.out_w - column * plan.m)
        columns = columns if isinstance(columns, int) else T.Bind(columns)
        vectors = -(-conv.out_c // lanes)
        with tir.loop(self.inner, self.inner) as thread:
            local = tir.scratch(height * width * lanes)
            with _share(vectors, thread, self.inner) as filters:
                bias = self._bias(filters)
                with tir.loop(plan.block_rows) as y, tir.loop(plan.block_columns) as x:
                    self._backward_tile(local, y, x, width, filters, bias)
                with tir.loop(tir.least(height, conv.out_h - row * plan.m)) as y:
                    top = row * plan.m + y
                    plane = (image * conv.out_c + filters * lanes) * (conv.out_h * conv.out_w)
                    start = T.Bind(plane + top * conv.out_w + column * plan.m)
                    self._scatter(local, T.Bind(y * (width * lanes)), start, filters, columns)

    def _bias(self, filters: Any) -> Any:
        """The bias of a vector of filters, or None. Missing filters take the last one's."""
        if self.args.bias is None:
            return None
        lanes, last = self.plan.lanes, self.conv.out_c - 1
        if self.conv.out_c % lanes == 0:
            return T.Bind(self.args.bias[tir.vector(filters * lanes, lanes)])
        each = [self.args.bias[tir.least(filters * lanes + lane, last)] for lane in range(lanes)]
        return T.Bind(tirx.Shuffle(each, [tir.index(lane) for lane in range(lanes)]))

    def _backward_tile(self, local: Any, y: Any, x: Any, width: int, filters: Any, bias: Any) -> None:
        plan, lanes = self.plan, self.plan.lanes
        at = T.Bind((y * plan.block_columns + x) * plan.out_row + filters * lanes)
        result = self._transform(
            lambda line: plan.transform.backward(line, self._times, T.Bind),
            lambda i, j: self.products[tir.vector(at + (i * plan.tile + j) * plan.out_pitch, lanes)],
        )
        base = T.Bind((y * width + x) * (plan.m * lanes))
        for i, j, value in result:
            value = value if bias is None else value + bias
            tir.store(local, value, tir.vector(base + (i * width + j) * lanes, lanes))

    def _scatter(self, local: Any, base: Any, start: Any, filters: Any, columns: Any) -> None:
        """Turn one row of vectors of filters into a row of each filter's plane, with the epilogue."""
        lanes, conv = self.plan.lanes, self.conv

        def group(at: Any, count: int = lanes) -> None:
            rows = [local[tir.vector(base + (at + lane) * lanes, lanes)] for lane in range(count)]
            rows = [T.Bind(value) for value in rows] + [tir.zeros(lanes)] * (lanes - count)
            for lane, value in enumerate(transpose(rows)):
                target = start + lane * (conv.out_h * conv.out_w) + at
                if conv.out_c % lanes:
                    with tir.when(filters * lanes + lane < conv.out_c):
                        self._store(value, target, count)
                else:
                    self._store(value, target, count)

        if isinstance(columns, int) and columns < lanes:
            group(0, columns)
            return
        with tir.loop(columns // lanes) as turn:
            group(T.Bind(turn * lanes))
        # The last group overlaps the one before it.
        if not isinstance(columns, int) or columns % lanes:
            group(columns - lanes)

    def _store(self, value: Any, target: Any, count: int) -> None:
        for offset, width, part in split(value, count, self.plan.lanes):
            self.args.store_out(part, target + offset, width)


def _share(total: int, thread: Any, threads: int) -> Any:
    """A loop over one thread's share of ``range(total)``."""
    if threads == 1:
        return tir.loop(total)
    return T.serial(thread * total // threads, (thread + 1) * total // threads)
