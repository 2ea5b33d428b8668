"""Packed GEMM's generated code: the loops over blocks, panels and row tiles, and the micro-kernel."""

from __future__ import annotations

import itertools

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, tir
from kernels.emit.open_rows import OpenRows, chosen, held, quotient
from kernels.emit.outer_product import Sums
from kernels.emit.shares import Share, share
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Expr, Index, Vector
from kernels.emit.vectors import load_part, split
from kernels.float.gemm.plan import Plan, accumulators
from kernels.float.plan import Arguments

ENOUGH_SUMS = 8
"""How many hide the latency of a multiply-add: fewer take turns along k."""
WIDEST, WIDEST_ROW = 4, 8
"""Vectors of the widest block that a few rows get, and of one row's."""


def emit(plan: Plan, args: Arguments) -> None:
    """The loop nest n block, k block, m block, panel, row tile around the micro-kernel."""
    Nest(plan, args).run()


class Nest:
    """Emits the loops of one function, of as many rows as the workload has or the arguments say."""

    def __init__(self, plan: Plan, args: Arguments) -> None:
        self.gemm, self.plan, self.args = plan.workload, plan, args
        self.k_blocks = ceil_div(plan.workload.k, plan.kc)
        self.open = None if args.rows is None else OpenRows(args.rows, plan.rows)

    def run(self) -> None:
        """All of it, each thread its share of the panels and of the row tiles."""
        plan = self.plan
        over_panels, over_rows = plan.parts if self.open is None else (plan.threads, 1)
        with code_shape.linked(), tir.loop(over_panels * over_rows, over_panels * over_rows) as thread:
            one, other = (thread, 0) if over_rows == 1 else (thread // over_rows, thread % over_rows)
            self._nest(
                share(plan.whole_panels, plan.edge_columns > 0, one, over_panels),
                share(plan.whole_tiles, plan.edge_rows > 0, other, over_rows)
                if self.open is None
                else Share(0, held(self.open.tiles), None),
            )

    def _nest(self, panels: Share, tiles: Share) -> None:
        plan, gemm = self.plan, self.gemm
        n_step, m_step = plan.nc // plan.width, plan.mc // plan.rows
        n_blocks = max(1, ceil_div(plan.whole_panels, n_step))
        m_blocks: Index = max(1, ceil_div(plan.whole_tiles, m_step))
        if self.open is not None:
            m_blocks = held(quotient(tiles.stop + (m_step - 1), m_step))
        with tir.loop(n_blocks) as n_block, tir.loop(self.k_blocks) as k_block:
            first = T.Bind(panels.first + n_block * n_step)
            end = T.Bind(tir.least(panels.stop, first + n_step))
            depth = plan.kc
            if gemm.k % plan.kc:
                depth = T.Bind(tir.least(plan.kc, gemm.k - k_block * plan.kc))
            with tir.loop(m_blocks) as m_block:
                top = T.Bind(tiles.first + m_block * m_step)
                bottom = T.Bind(tir.least(tiles.stop, top + m_step))
                rows = Share(top, bottom, _both(tiles.last, m_block == m_blocks - 1))
                self._prepare(rows, k_block, depth)
                tir.choose(
                    None if self.open is None or not self.low else self.open.rows > self.low,
                    lambda: self._panels(first, end, rows, k_block, depth),
                    lambda: self._low_panels(first, end, k_block, depth),
                )
                if plan.edge_columns:
                    with tir.when(_both(panels.last, n_block == n_blocks - 1)):
                        self._tiles(tir.index(plan.whole_panels), plan.edge_columns, rows, k_block, depth)

    def _prepare(self, rows: Share, k_block: Index, depth: Index) -> None:
        """What is done with the data of these row tiles before any panel meets them: nothing."""

    def _panels(self, first: Index, end: Index, rows: Share, k_block: Index, depth: Index) -> None:
        with T.serial(first, end) as panel:
            self._tiles(panel, self.plan.width, rows, k_block, depth)

    def _low_panels(self, first: Index, end: Index, k_block: Index, depth: Index) -> None:
        """All of the few rows there are, and several panels at a time: one alone has too few sums."""
        assert self.open is not None
        width = self.plan.width

        def each(height: int) -> None:
            together = self._together(height)
            groups = held(quotient(end - first, together))
            with T.serial(0, groups) as group:
                panel = T.Bind(first + group * together)
                self._micro(height, together * width, 0, 0, panel, k_block, depth)
            with T.serial(first + groups * together, end) as panel:
                self._micro(height, width, 0, 0, panel, k_block, depth)

        chosen(self.open.rows, range(1, self.low + 1), each)

    @property
    def low(self) -> int:
        """Up to how many open rows, always a single tile, meet several panels at a time."""
        heights = range(1, (self.plan.rows + 1) // 2)
        return sum(1 for _ in itertools.takewhile(lambda height: self._together(height) > 1, heights))

    def _together(self, rows: int) -> int:
        """How many panels so few rows meet at a time: a block as wide as a product of just these has."""
        plan = self.plan
        wide = WIDEST_ROW if rows == 1 else WIDEST
        vectors = min(
            wide, (plan.target.vector_registers - 1) // (rows + 1), accumulators(plan.target) // rows
        )
        return max(1, min(plan.whole_panels, vectors // plan.knobs.vectors))

    def _tiles(self, panel: Index, columns: int, rows: Share, k_block: Index, depth: Index) -> None:
        plan = self.plan
        if self.open is not None:
            with T.serial(rows.first, rows.stop) as tile:
                number = held(tile - rows.first)
                self.open.tile(
                    tile, lambda height, top: self._micro(height, columns, top, number, panel, k_block, depth)
                )
            return
        if plan.whole_tiles:
            with T.serial(rows.first, rows.stop) as tile:
                self._micro(plan.rows, columns, tile * plan.rows, tile - rows.first, panel, k_block, depth)
        if plan.edge_rows:
            with tir.when(rows.last):
                top, number = tir.index(plan.whole_tiles * plan.rows), plan.whole_tiles - rows.first
                self._micro(plan.edge_rows, columns, top, number, panel, k_block, depth)

    def _micro(
        self, rows: int, columns: int, top: Index, number: Index, panel: Index, k_block: Index, depth: Index
    ) -> None:
        """``rows`` x ``columns`` of the output, over one block of k: tile ``number`` of those that a panel
        meets before the next panel. More columns than a panel has are those of the next ones."""
        plan, gemm, args, lanes = self.plan, self.gemm, self.args, self.plan.lanes
        sums = Sums(rows, columns, lanes, self._chains(rows * ceil_div(columns, plan.width)))

        def out_at(row: int, start: int) -> Index:
            return (top + row) * gemm.n + panel * plan.width + start

        def bias(row: int, start: int) -> Vector:
            if args.bias is None:
                return tir.zeros(lanes)
            return load_part(args.bias, panel * plan.width + start, sums.count(start), lanes)

        def unfinished(row: int, start: int) -> Vector:
            return load_part(args.out, out_at(row, start), sums.count(start), lanes)

        def data(row: int, at: Index) -> Vector:
            return args.data[(top + row) * gemm.k + at]

        def weights_at(start: int, at: Index) -> Index:
            more, column = divmod(start, plan.width)
            return ((panel + more) * gemm.k + at) * plan.width + column

        def weights(start: int, at: Index) -> Vector:
            return args.weights[tir.vector(weights_at(start, at), lanes)]

        here = (panel * gemm.k + k_block * plan.kc) * plan.width
        fetched, pace = plan.fetched, tir.index(plan.fetched)
        if self.open is not None:
            fetched, pace = self._fetched_open(rows)
            number = tir.least(number, 1) if columns <= plan.width else number
        coming = T.Bind(tir.index(here + gemm.k * plan.width + number * depth * pace))

        def fetch(step: Index) -> None:
            if columns > plan.width:
                for start in range(0, columns, plan.line):
                    code_shape.prefetch(args.weights, weights_at(columns + start, k_block * plan.kc + step))
                return
            for start in range(0, fetched, plan.line):
                code_shape.prefetch(args.weights, coming + step * pace + start)

        def leave(final: bool) -> None:
            for row, start, value in sums.values():
                for offset, width, part in split(value, sums.count(start), lanes):
                    at = out_at(row, start) + offset
                    if final:
                        args.store_out(part, at, width)
                    else:
                        tir.store(args.out, part, tir.vector(at, width))

        begins, ends = (None if self.k_blocks == 1 else k_block == at for at in (0, self.k_blocks - 1))
        tir.choose(begins, lambda: sums.begin(bias), lambda: sums.begin(unfinished))
        sums.add(k_block * plan.kc, depth, data, weights, fetch if fetched else None)
        tir.choose(ends, lambda: leave(True), lambda: leave(False))

    def _fetched_open(self, rows: int) -> tuple[int, Index]:
        """Elements of the next panel that a step of a tile of open rows prefetches, and how far apart.

        The only tile fetches all of the panel, of several the first two fetch a half each. One row is as fast
        as memory anyway.
        """
        assert self.open is not None
        width = self.plan.width
        if rows == 1:
            return 0, tir.index(0)
        if 2 * rows <= self.plan.rows:
            return width, tir.index(width)  # so low a tile is the only one
        return width, held(tirx.Select(self.open.tiles == 1, tir.index(width), tir.index(ceil_div(width, 2))))

    def _chains(self, rows: int) -> int:
        """Sets of sums for so many rows of a panel; a low tile of open rows takes more of them, as tiles of
        any height are there."""
        plan = self.plan
        if self.open is None:
            return plan.knobs.chains
        return min(4, max(plan.knobs.chains, ceil_div(ENOUGH_SUMS, rows * plan.knobs.vectors)))


def _both(one: Expr | None, other: Expr) -> Vector:
    return other if one is None else tirx.all(one, other)
