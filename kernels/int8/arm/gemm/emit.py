"""The loops of the quantized matrix product, and what happens to a block of sums."""

from __future__ import annotations

from collections.abc import Callable

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, tir
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.arm.blocks.block import QUAD, Block, Quads, Rows, quad_at
from kernels.int8.arm.blocks.fours import Fours
from kernels.int8.arm.finish import Finish
from kernels.int8.arm.gemm.plan import FILTERS, Part, Plan
from kernels.int8.arm.gemm.rows import RowTransform
from kernels.int8.tir import QArguments
from kernels.isa.arm import ARM32


def emit(plan: Plan, args: QArguments) -> None:
    """The loop nest around the micro-kernel."""
    with code_shape.linked():
        Nest(plan, args).run()


class Nest:
    """Emits one function's loops: slabs of windows, in these panels of filters, in these tiles; or panels of
    filters, in these tiles."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.args = plan, args
        self.finish = Finish(args, plan.knobs.requant, plan.target.isa is ARM32)
        self.rows = RowTransform(plan, args.data)
        self.rest = plan.windows % plan.block.rows

    def run(self) -> None:
        """All windows; those that fill no tile come last."""
        if self.plan.knobs.order == FILTERS:
            self._filters_outside()
        else:
            self._windows_outside()

    def _windows_outside(self) -> None:
        """Slabs shared out over the threads."""
        plan, block, most = self.plan, self.plan.block, self.plan.knobs.slab
        with tir.loop(ceil_div(plan.tiles, most), plan.threads) as slab:
            first = T.Bind(slab * most)
            count = T.Bind(tir.least(most, plan.tiles - first)) if plan.tiles % most else most
            self._slab(block, first * block.rows, count, most)
        if self.rest:
            self._slab(block.of_rows(self.rest), tir.index(plan.windows - self.rest), 1, 1)

    def _filters_outside(self) -> None:
        """Panels shared out over the threads, after all windows were transformed."""
        plan, block = self.plan, self.plan.block
        tiles = [(block, tir.index(0), plan.tiles)]
        if self.rest:
            tiles.append((block.of_rows(self.rest), tir.index(plan.windows - self.rest), 1))
        there = [(each, self._windows(*each, each[2], plan.threads)) for each in tiles]
        for filter_, panels, panel in block.panels(plan.conv.out_c):
            with tir.loop(panels, plan.threads) as p:
                for (high, first, count), rows in there:
                    kept = self._kept(high, count)
                    for part in plan.parts:
                        with tir.loop(count) as t:
                            place = (p, filter_, panel.of_rows(high.rows))
                            self._sums(part, place, rows(t), first + t * high.rows, kept, t)

    def _slab(self, block: Block, first: Index, count: Index, most: int) -> None:
        """``count`` tiles of ``block.rows`` windows from number ``first`` on, at most ``most``."""
        plan = self.plan
        rows = self._windows(block, first, count, most)
        kept = self._kept(block, most * ceil_div(plan.conv.out_c, block.columns))
        for part in plan.parts:
            for filter_, panels, panel in plan.block.panels(plan.conv.out_c):
                with tir.loop(panels) as p, tir.loop(count) as t:
                    place = (p, filter_, panel.of_rows(block.rows))
                    number = (p + filter_ // block.columns) * most + t
                    self._sums(part, place, rows(t), first + t * block.rows, kept, number)

    def _windows(
        self, block: Block, first: Index, count: Index, most: int, threads: int = 1
    ) -> Callable[[Index], Rows]:
        """Where each tile of a slab finds its rows, after these were transformed where they have to be."""
        plan = self.plan
        tile = block.rows * plan.padded_depth
        apart, _ = plan.strides(block)
        if plan.in_place:
            return lambda t: Rows(self.args.data, T.Bind((first + t * block.rows) * plan.depth), apart)
        buffer = tir.scratch(most * tile, block.dtype)
        line = self.rows.line() if threads == 1 else None
        with tir.loop(count, threads) as t:
            mine = self.rows.line() if line is None else line
            self.rows.tile(block, first + t * block.rows, buffer, t * tile, mine)
        return lambda t: Rows(buffer, T.Bind(t * tile), apart)

    def _kept(self, block: Block, count: int) -> Buffer:
        """Memory for the sums of so many blocks between two parts of the depth."""
        return tir.scratch(count * block.accumulators * QUAD, "int32") if self.plan.knobs.split > 1 else None

    def _sums(
        self,
        part: Part,
        place: tuple[Index, int, Block],
        rows: Rows,
        window: Index,
        kept: Buffer,
        number: Index,
    ) -> None:
        """One block over a part of the depth, and after the last from registers to the results.

        ``place`` is the number of the panel among those of its width, their first filter, and the block. The
        sums of block ``number`` wait in ``kept`` between two parts.
        """
        plan = self.plan
        p, first_filter, block = place
        before = first_filter // plan.block.columns * plan.block.length(part.steps)
        at = T.Bind(p * block.length(part.steps) + (part.at + before))
        filter_ = T.Bind(p * block.columns + first_filter)
        waiting = number * (plan.block.of_rows(block.rows).accumulators * QUAD)
        _, pitch = plan.strides(block)
        rows = Rows(rows.buffer, rows.at + part.first * pitch, rows.pitch) if part.first else rows
        quads = range(0, block.columns, QUAD)
        bias = [self.args.start(filter_ + quad, QUAD) for quad in quads]
        if part.first:
            sums = tir.registers(block.accumulators * QUAD, "int32")
            for slot in map(quad_at, range(block.accumulators)):
                tir.store(sums, kept[tir.vector(waiting + slot.base, QUAD)], slot)
        else:
            sums = block.begin(self._starts(block, bias, window, filter_))

        def step(number: Index, first: bool) -> None:
            source = Rows(rows.buffer, T.Bind(rows.at + number * pitch), rows.pitch)
            weights = T.Bind(at + number * (block.panel * block.depth))
            block.step(sums, source, self.args.weights, weights, first)

        apart = int(block.first_apart and not part.first)
        if isinstance(block, Fours):
            block.products(sums, rows, self.args.weights, at, part.steps)
        elif apart:
            step(0, True)
        if part.steps > apart and not isinstance(block, Fours):
            with code_shape.kept_loop(part.steps - apart) as k:
                step(k + apart, False)
        if part is not plan.parts[-1]:
            for slot in map(quad_at, range(block.accumulators)):
                tir.store(kept, sums[slot], tir.vector(waiting + slot.base, QUAD))
            return
        found = block.end(sums, bias)
        filters = plan.conv.out_c
        out = T.Bind(window * filters + filter_)
        self.finish.block(found, filter_, block.columns, out, filters)

    def _starts(self, block: Block, bias: list[Vector], window: Index, filter_: Index) -> list[list[Vector]]:
        """What the sums of each row begin with, loaded for each row: copies of a register would take the
        vector unit's time, which is what such blocks have least of."""
        if self.args.zero is not None or not isinstance(block, Quads):
            return [bias] * block.rows
        starts = []
        for row in range(block.rows):
            first = code_shape.fresh(filter_, window + row)
            starts.append([self.args.start(first + quad, QUAD) for quad in range(0, block.columns, QUAD)])
        return starts
