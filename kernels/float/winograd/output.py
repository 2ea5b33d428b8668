"""Winograd's output transform, with the epilogue: a block's tiles, one vector of filters after another."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.emit import tir
from kernels.emit.shares import turns
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import split, transpose
from kernels.float.plan import Arguments
from kernels.float.winograd.pixels import Pixels
from kernels.float.winograd.plan import Plan, tile_grid
from kernels.float.winograd.transform import Transform


class OutputTransform:
    """Emits the transform of one block: rows of tiles, first down their columns, then along their rows.

    In NCHW, each row of vectors of filters is then turned into rows of the filters' planes.
    """

    def __init__(self, plan: Plan, args: Arguments, products: Buffer, threads: int) -> None:
        self.plan, self.conv, self.args, self.lanes = plan, plan.conv, args, plan.lanes
        self.products, self.threads = products, threads
        self.pixels = Pixels.of(plan.layouts.out, plan.conv.out_shape, plan.lanes)

    def run(self, image: Index, row: Index, column: Index) -> None:
        """The block whose first tile is in that row and column of tiles."""
        plan, conv, lanes = self.plan, self.conv, self.lanes
        self.image, self.column = image, column
        with tir.loop(self.threads, self.threads) as thread:
            self.lines = tir.scratch(plan.knobs.m * plan.block_columns * plan.tile_columns * lanes)
            self.turned: Buffer = (
                None if self.pixels else tir.scratch(plan.block_columns * plan.knobs.m * lanes)
            )
            with turns(plan.out_vectors, thread, self.threads) as filters:
                bias = self._bias(filters)
                with tir.loop(plan.block_rows) as tiles:
                    self._down(filters, tiles)
                    top = T.Bind((row + tiles) * plan.knobs.m)
                    with tir.loop(tir.least(plan.knobs.m, conv.out_h - top)) as y:
                        self._along(filters, y, top + y, bias)

    def _bias(self, filters: Index) -> Vector | None:
        """The bias of a vector of filters, or None. Missing filters take the last one's."""
        if self.args.bias is None:
            return None
        lanes, last = self.lanes, self.conv.out_c - 1
        if self.conv.out_c % lanes == 0:
            return T.Bind(self.args.bias[tir.vector(filters * lanes, lanes)])
        each = [self.args.bias[tir.least(filters * lanes + lane, last)] for lane in range(lanes)]
        return T.Bind(tirx.Shuffle(each, [tir.index(lane) for lane in range(lanes)]))

    def _down(self, filters: Index, tiles: Index) -> None:
        """The columns of a row of tiles: ``m`` lines of them."""
        plan, lanes = self.plan, self.lanes
        with tir.loop(plan.tile_columns) as j, tir.loop(plan.block_columns) as x:
            at = T.Bind(j * plan.out_pitch + plan.at(filters, tiles * plan.block_columns + x))
            pitch = plan.tile_columns * plan.out_pitch
            values = [self.products[tir.vector(at + i * pitch, lanes)] for i in range(plan.tile_rows)]
            target = T.Bind((x * plan.tile_columns + j) * lanes)
            for y, value in enumerate(self._transform(plan.transforms[0], values)):
                line = y * (plan.block_columns * plan.tile_columns * lanes)
                tir.store(self.lines, value, tir.vector(target + line, lanes))

    def _transform(self, transform: Transform, values: Sequence[Vector]) -> list[Vector]:
        def times(factor: float, value: Vector) -> Vector:
            return tir.splat(tir.number(factor), self.lanes) * value

        return transform.backward([T.Bind(value) for value in values], times, T.Bind)

    def _along(self, filters: Index, line: Index, row: Index, bias: Vector | None) -> None:
        """One row of output, the last tile of the plane only as far as it is inside."""
        plan, conv, lanes = self.plan, self.conv, self.lanes
        _, across = tile_grid(conv, plan.knobs.m)
        inside = conv.out_w - (across - 1) * plan.knobs.m
        if self.pixels is None:
            start: Index = 0
        else:
            start = T.Bind(self.pixels.at(self.image, filters, row, self.column * plan.knobs.m))

        def tile(x: Index, columns: int) -> None:
            at = (line * plan.block_columns + x) * (plan.tile_columns * lanes)
            values = [self.lines[tir.vector(at + j * lanes, lanes)] for j in range(plan.tile_columns)]
            for j, value in enumerate(self._transform(plan.transforms[1], values)[:columns]):
                value = value if bias is None else value + bias
                if self.pixels is None:
                    tir.store(self.turned, value, tir.vector((x * plan.knobs.m + j) * lanes, lanes))
                else:
                    self.args.store_out(
                        value, T.Bind(start + (x * plan.knobs.m + j) * self.pixels.column), lanes
                    )

        if self.pixels is None:
            with tir.loop(plan.block_columns) as x:
                tile(x, plan.knobs.m)
            self._turn_row(filters, row)
            return
        if inside == plan.knobs.m:
            with tir.loop(plan.block_columns) as x:
                tile(x, plan.knobs.m)
            return
        with tir.loop(plan.block_columns - 1) as x:
            tile(x, plan.knobs.m)
        last = tir.index(plan.block_columns - 1)
        if plan.grid[1] == 1:
            tile(last, inside)
        else:
            tir.choose(
                self.column < across - plan.block_columns,
                lambda: tile(last, plan.knobs.m),
                lambda: tile(last, inside),
            )

    def _turn_row(self, filters: Index, row: Index) -> None:
        """One row of vectors of filters to a row of each filter's plane, with the epilogue."""
        plan, conv, lanes = self.plan, self.conv, self.lanes
        left = self.column * plan.knobs.m
        width = plan.block_columns * plan.knobs.m
        columns = conv.out_w if plan.grid[1] == 1 else T.Bind(tir.least(width, conv.out_w - left))
        plane = (self.image * conv.out_c + filters * lanes) * (conv.out_h * conv.out_w)
        start = T.Bind(plane + row * conv.out_w + left)

        def group(at: Index, count: int = lanes) -> None:
            rows = [self.turned[tir.vector((at + lane) * lanes, lanes)] for lane in range(count)]
            rows = [T.Bind(value) for value in rows] + [tir.zeros(lanes)] * (lanes - count)
            for lane, value in enumerate(transpose(rows)):
                target = start + lane * (conv.out_h * conv.out_w) + at
                there = filters * lanes + lane < conv.out_c if conv.out_c % lanes else None
                with tir.when(there):
                    for offset, part_width, part in split(value, count, lanes):
                        self.args.store_out(part, target + offset, part_width)

        if isinstance(columns, int) and columns < lanes:
            group(0, columns)
            return
        with tir.loop(columns // lanes) as turn:
            group(T.Bind(turn * lanes))
        # The last group overlaps the one before it.
        if not isinstance(columns, int) or columns % lanes:
            group(columns - lanes)
