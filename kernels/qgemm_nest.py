"""The loops of the quantized matrix product, and what happens to a block of sums. TVM objects are Any."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from kernels import code_shape, qtir, tir
from kernels.qblocks import QUAD, Block, Rows
from kernels.qfinish import Finish
from kernels.qgemm_plan import Plan
from kernels.qgemm_rows import RowTransform


class Nest:
    """Emits one function's loops: slabs of windows, in these panels of filters, in these tiles."""

    def __init__(self, plan: Plan, args: qtir.QArguments, finish: Finish) -> None:
        self.plan, self.args, self.finish = plan, args, finish
        self.rows = RowTransform(plan, args.data)

    def run(self, threads: int) -> None:
        """All windows, slabs shared out over the threads; those that fill no tile come last."""
        plan = self.plan
        slabs = -(-plan.tiles // plan.slab)
        with tir.loop(slabs, threads) as slab:
            first = T.Bind(slab * plan.slab)
            count = plan.slab
            if plan.tiles % plan.slab:
                count = T.Bind(tir.least(plan.slab, plan.tiles - first))
            self._slab(plan.block, first * plan.block.rows, count)
        if plan.rest is not None:
            self._slab(plan.rest, tir.index(plan.tiles * plan.block.rows), 1)

    def _slab(self, block: Block, first: Any, count: Any) -> None:
        """``count`` tiles of ``block.rows`` windows from number ``first`` on."""
        plan = self.plan
        tile = block.rows * plan.padded_depth
        if plan.in_place:
            buffer, pitch = self.args.data, plan.depth
        else:
            buffer = qtir.scratch((plan.slab if block is plan.block else 1) * tile, block.dtype)
            pitch = block.depth
            line = self.rows.line()
            with tir.loop(count) as t:
                self.rows.tile(block, first + t * block.rows, buffer, t * tile, line)

        def rows(t: Any) -> Rows:
            if plan.in_place:
                return Rows(buffer, T.Bind((first + t * block.rows) * plan.depth), pitch)
            return Rows(buffer, T.Bind(t * tile), pitch)

        for filter_, panels, panel in plan.panels:
            with tir.loop(panels) as p, tir.loop(count) as t:
                at = T.Bind(p * (panel.panel * plan.padded_depth) + plan.panel_at(filter_))
                number = T.Bind(p * panel.columns + filter_)
                self._sums(panel.of_rows(block.rows), rows(t), at, first + t * block.rows, number)

    def _sums(self, block: Block, rows: Rows, at: Any, window: Any, filter_: Any) -> None:
        """One block: its sums over the whole depth, and from registers to the results."""
        plan = self.plan
        pitch = block.depth if plan.in_place else block.rows * block.depth
        quads = range(0, block.columns, QUAD)
        bias = [T.Bind(self.args.bias[tir.vector(filter_ + quad, QUAD)]) for quad in quads]
        sums = block.begin(bias)

        def step(number: Any, first: bool) -> None:
            source = Rows(rows.buffer, T.Bind(rows.at + number * pitch), rows.pitch)
            weights = T.Bind(at + number * (block.panel * block.depth))
            block.step(sums, source, self.args.weights, weights, first)

        apart = int(block.first_apart)
        if apart:
            step(0, True)
        if plan.steps > apart:
            with code_shape.kept_loop(plan.steps - apart) as k:
                step(k + apart, False)
        found = block.end(sums, bias)
        filters = plan.conv.out_c
        out = T.Bind(window * filters + filter_)
        self.finish.block(found, filter_, block.columns, out, filters)
