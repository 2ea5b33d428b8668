"""The loops of the quantized matrix product, and what happens to a block of sums."""

from __future__ import annotations

from tvm.script.ir_builder import tirx as T

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, tir
from kernels.emit.types import Index, Vector
from kernels.int8.arm.blocks.block import QUAD, Block, Quads, Rows
from kernels.int8.arm.blocks.fours import Fours
from kernels.int8.arm.finish import Finish
from kernels.int8.arm.gemm.plan import Plan
from kernels.int8.arm.gemm.rows import RowTransform
from kernels.int8.tir import QArguments
from kernels.isa.arm import ARM32


def emit(plan: Plan, args: QArguments) -> None:
    """The loop nest around the micro-kernel."""
    with code_shape.linked():
        Nest(plan, args).run()


class Nest:
    """Emits one function's loops: slabs of windows, in these panels of filters, in these tiles."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.args = plan, args
        self.finish = Finish(args, plan.knobs.requant, plan.target.isa is ARM32)
        self.rows = RowTransform(plan, args.data)

    def run(self) -> None:
        """All windows, slabs shared out over the threads; those that fill no tile come last."""
        plan, block, most = self.plan, self.plan.block, self.plan.knobs.slab
        with tir.loop(ceil_div(plan.tiles, most), plan.threads) as slab:
            first = T.Bind(slab * most)
            count = T.Bind(tir.least(most, plan.tiles - first)) if plan.tiles % most else most
            self._slab(block, first * block.rows, count)
        if rest := plan.windows % block.rows:
            self._slab(block.of_rows(rest), tir.index(plan.windows - rest), 1)

    def _slab(self, block: Block, first: Index, count: Index) -> None:
        """``count`` tiles of ``block.rows`` windows from number ``first`` on."""
        plan = self.plan
        tile = block.rows * plan.padded_depth
        pitch, _ = plan.strides(block)
        if plan.in_place:
            buffer = self.args.data
        else:
            buffer = tir.scratch((plan.knobs.slab if block is plan.block else 1) * tile, block.dtype)
            line = self.rows.line()
            with tir.loop(count) as t:
                self.rows.tile(block, first + t * block.rows, buffer, t * tile, line)

        def rows(t: Index) -> Rows:
            if plan.in_place:
                return Rows(buffer, T.Bind((first + t * block.rows) * plan.depth), pitch)
            return Rows(buffer, T.Bind(t * tile), pitch)

        for filter_, panels, panel in plan.block.panels(plan.conv.out_c):
            with tir.loop(panels) as p, tir.loop(count) as t:
                before = filter_ // plan.block.columns * plan.block.length(plan.steps)
                at = T.Bind(p * panel.length(plan.steps) + before)
                number = T.Bind(p * panel.columns + filter_)
                self._sums(panel.of_rows(block.rows), rows(t), at, first + t * block.rows, number)

    def _sums(self, block: Block, rows: Rows, at: Index, window: Index, filter_: Index) -> None:
        """One block: its sums over the whole depth, and from registers to the results."""
        plan = self.plan
        _, pitch = plan.strides(block)
        quads = range(0, block.columns, QUAD)
        bias = [self.args.start(filter_ + quad, QUAD) for quad in quads]
        sums = block.begin(self._starts(block, bias, window, filter_))

        def step(number: Index, first: bool) -> None:
            source = Rows(rows.buffer, T.Bind(rows.at + number * pitch), rows.pitch)
            weights = T.Bind(at + number * (block.panel * block.depth))
            block.step(sums, source, self.args.weights, weights, first)

        apart = int(block.first_apart)
        if isinstance(block, Fours):
            block.products(sums, rows, self.args.weights, at, plan.steps)
        elif apart:
            step(0, True)
        if plan.steps > apart and not isinstance(block, Fours):
            with code_shape.kept_loop(plan.steps - apart) as k:
                step(k + apart, False)
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
