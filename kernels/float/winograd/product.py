"""Winograd's matrix products: one for each point of a tile, transformed tiles by transformed filters."""

from __future__ import annotations

from contextlib import AbstractContextManager

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, tir
from kernels.emit.shares import turns
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index
from kernels.float.plan import Arguments
from kernels.float.winograd.products_plan import ProductsPlan


class Products:
    """Emits the products of one block.

    A panel of filters is multiplied with all tiles, a chunk of its channels at a time: the chunk of weights
    stays in L1 meanwhile, and the next one is fetched, a part with every group of tiles. So weights arrive
    all the time, not only while the first group meets them.
    """

    def __init__(
        self, plan: ProductsPlan, args: Arguments, transformed: Buffer, products: Buffer, threads: int
    ) -> None:
        self.plan, self.args, self.lanes = plan, args, plan.lanes
        self.transformed, self.products, self.threads = transformed, products, threads

    @staticmethod
    def linked() -> AbstractContextManager[object]:
        """Within it products may be emitted."""
        return code_shape.linked()

    def run(self) -> None:
        """All panels of all points."""
        plan = self.plan
        with (
            tir.loop(self.threads, self.threads) as thread,
            turns(plan.points * plan.panels, thread, self.threads) as item,
        ):
            point, panel = T.Bind(item // plan.panels), T.Bind(item % plan.panels)
            first = plan.chunk
            self._chunk(item, point, panel, tir.index(0), first, True)
            whole, rest = divmod(plan.conv.in_c - first, plan.chunk)
            if whole:
                with T.serial(1, whole + 1) as turn:
                    self._chunk(item, point, panel, T.Bind(turn * plan.chunk), plan.chunk, False)
            if rest:
                self._chunk(item, point, panel, tir.index(plan.conv.in_c - rest), rest, False)

    def _chunk(
        self, item: Index, point: Index, panel: Index, channel: Index, depth: int, fresh: bool
    ) -> None:
        plan = self.plan
        weights = T.Bind((item * plan.conv.in_c + channel) * plan.width)
        source = T.Bind(point * plan.in_pitch + channel * plan.places)
        target = T.Bind(point * plan.out_pitch + plan.at(panel * plan.vectors, 0))
        whole, rest = divmod(plan.tiles, plan.rows)
        with tir.loop(whole) as group:
            self._micro(plan.rows, T.Bind(group * plan.rows), weights, source, target, depth, fresh)
        if rest:
            self._micro(rest, tir.index(whole * plan.rows), weights, source, target, depth, fresh)

    def _fetch(self, ahead: Index, first: Index) -> None:
        """One group of tiles' share of the lines of weights for a vector of channels."""
        plan = self.plan
        lines = ceil_div(4 * self.lanes * plan.width, plan.target.line_bytes)
        each = ceil_div(lines, plan.groups)
        for line in range(each):
            at = ahead + (first // plan.rows * each + line) * (plan.target.line_bytes // 4)
            code_shape.prefetch(self.args.weights, at)

    def _micro(
        self, rows: int, first: Index, weights: Index, source: Index, target: Index, depth: int, fresh: bool
    ) -> None:
        """``rows`` tiles by one panel over ``depth`` channels."""
        plan, lanes = self.plan, self.lanes
        slots = {
            (row, vector): tir.vector((row * plan.vectors + vector) * lanes, lanes)
            for row in range(rows)
            for vector in range(plan.vectors)
        }
        places = {
            (row, vector): tir.vector(target + plan.at(vector, first + row), lanes) for row, vector in slots
        }
        registers = tir.registers(len(slots) * lanes)
        for cell, slot in slots.items():
            tir.store(registers, tir.zeros(lanes) if fresh else self.products[places[cell]], slot)

        def step(tiles: Index, filters: Index, lane: Index) -> None:
            for (row, vector), slot in slots.items():
                value = tir.splat(self.transformed[tiles + row * lanes + lane], lanes)
                product = value * self.args.weights[tir.vector(filters + vector * lanes, lanes)]
                tir.store(registers, registers[slot] + product, slot)
            # Else LLVM loads for later channels early, and the sums no longer fit in the registers.
            code_shape.order()

        with tir.loop(depth // lanes) as at:
            tiles = T.Bind(source + plan.at(at, first))
            filters = T.Bind(weights + at * (lanes * plan.width))
            if plan.groups > 1:
                self._fetch(T.Bind(filters + depth * plan.width), first)
            if code_shape.keeps_loop(len(slots), plan.target.vector_bits):
                with code_shape.kept_loop(lanes) as lane:
                    step(tiles, filters + lane * plan.width, lane)
            else:
                for lane in range(lanes):
                    step(tiles, filters + lane * plan.width, lane)
        if depth % lanes:
            at = depth // lanes
            for lane in range(depth % lanes):
                step(source + plan.at(at, first), weights + (at * lanes + lane) * plan.width, lane)
        for cell, slot in slots.items():
            tir.store(self.products, registers[slot], places[cell])
