"""The code of an attention: its scores never are in memory as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.outer_product import Sums
from kernels.emit.shares import Share, turns
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, Vector
from kernels.emit.vectors import load_part, shuffle, split
from kernels.float.attention.plan import Plan
from kernels.float.attention.softmax import exponentials
from kernels.float.matmul.blocking import PACKED, PLACE, ROWS, Blocking
from kernels.float.matmul.columns import Panels
from kernels.float.matmul.tiles import Columns, Element, Rows, inner_products, outer_products


def emit(plan: Plan, inputs: Sequence[Buffer], out: Buffer) -> None:
    """All groups of the batch that share keys and values, each thread its share of them or of their rows."""
    names = ("queries", "keys", "values", "mask")
    _Emitter(plan, {**dict(zip(names, inputs, strict=False)), "out": out})


class _Emitter:
    def __init__(self, plan: Plan, buffers: dict[str, Buffer]) -> None:
        self.plan, self.what, self.lanes = plan, plan.workload, plan.lanes
        self.buffers = buffers
        with tir.loop(plan.parts, plan.parts) as thread:
            self.scores = tir.scratch(plan.block * plan.pitch)
            self.factors = tir.scratch(plan.block)
            self.keys, self.values = self._panels()
            with turns(plan.groups * plan.splits, thread, plan.parts) as item:
                group = T.Bind(item // plan.splits)
                self._group(group, item % plan.splits)

    def _panels(self) -> tuple[Panels | None, Panels | None]:
        plan, what = self.plan, self.what
        keys = values = None
        if plan.scores.way == PACKED:
            keys = Panels(what.depth, what.count, plan.scores.width, self.lanes)
        if plan.mixed.way != PLACE:
            values = Panels(what.count, what.width, plan.mixed.width, self.lanes)
        return keys, values

    def _group(self, group: Index, part: Index) -> None:
        """All places of the batch that share keys and values."""
        plan, what = self.plan, self.what
        first = T.Bind(group * plan.shared)
        starts = {
            name: T.Bind(tir.index(view.start(first, what.extents)))
            for name, view in (("keys", what.keys), ("values", what.values))
        }
        if self.keys is not None:
            self.keys.fill(self.buffers["keys"], what.keys, starts["keys"], what.count, what.depth)
        if self.values is not None:
            self.values.fill(self.buffers["values"], what.values, starts["values"], what.width, what.count)
        with tir.loop(plan.shared) as number:
            place = T.Bind(first + number)
            for name, view in (("queries", what.queries), ("out", what.out), ("mask", what.mask)):
                if view is not None:
                    starts[name] = T.Bind(tir.index(view.start(place, what.extents)))
            whole, rest = divmod(what.rows, plan.block)
            with turns(whole, part, plan.splits) as block:
                self._block(starts, T.Bind(block * plan.block), plan.block)
            if rest:
                with tir.when(None if plan.splits == 1 else part == plan.splits - 1):
                    self._block(starts, tir.index(whole * plan.block), rest)

    def _block(self, starts: dict[str, Index], top: Index, rows: int) -> None:
        """``rows`` rows from ``top`` on."""
        seen: Index = self.what.count
        if self.what.causal is not None:
            seen = T.Bind(tir.least(top + (rows + self.what.causal), self.what.count))
        self._scores(starts, top, rows, seen)
        self._softmax(starts, top, rows, seen)
        self._mixed(starts, top, rows, seen)

    def _rows(self, rows: int, height: int) -> Rows:
        whole, edge = divmod(rows, height)
        return Rows(Share(0, whole, None), height, edge, whole * height)

    def _scores(self, starts: dict[str, Index], top: Index, rows: int, seen: Index) -> None:
        plan, what, lanes = self.plan, self.what, self.lanes
        queries, keys = self.buffers["queries"], self.buffers["keys"]
        corner = T.Bind(starts["queries"] + top * what.queries.row)

        def element(row: Index, at: Index) -> Expr:
            return queries[corner + row * what.queries.row + at * what.queries.column]

        def scaled(row: Index, column: Index, value: Vector) -> None:
            if what.scale != 1:
                value = value * tir.splat(tir.number(what.scale), lanes)
            tir.store(self.scores, value, tir.vector(row * plan.pitch + column, lanes))

        if plan.scores.way == ROWS:

            def left(row: Index, at: Index, count: int) -> Vector:
                return load_part(queries, corner + row * what.queries.row + at, count, lanes)

            def right(column: Index, at: Index, count: int) -> Vector:
                return load_part(keys, starts["keys"] + column * what.keys.column + at, count, lanes)

            inner_products(self._rows(rows, 1), what.count, what.depth, lanes, left, right, scaled)
            return
        width = plan.scores.width

        def panel(number: Index, columns: int) -> None:
            first = T.Bind(tir.index(number * width))
            if self.keys is None:
                first = T.Bind(tir.least(first, what.count - width))

            def vector(start: int, at: Index) -> Vector:
                if self.keys is not None:
                    return self.keys.read(number, start, at)
                return keys[tir.vector(starts["keys"] + at * what.keys.row + first + start, lanes)]

            def finish(sums: Sums, row: Index) -> None:
                for line, start, value in sums.values():
                    scaled(row + line, first + start, value)

            self._outer(plan.scores, rows, columns, what.depth, element, vector, finish)

        self._each_panel(what.count, width, seen, self.keys is None, panel)

    def _softmax(self, starts: dict[str, Index], top: Index, rows: int, seen: Index) -> None:
        plan, what, lanes = self.plan, self.what, self.lanes
        rest = what.count % lanes
        # Whole rows, too, where the last vector has less of the mask than of scores.
        whole = isinstance(seen, int) or (what.mask is not None and rest > 0)
        columns = plan.pitch if whole else T.Bind((seen + (lanes - 1)) // lanes * lanes)
        nothing = tir.splat(tir.number(-math.inf), lanes)
        with tir.loop(rows) as row:

            def adjust(value: Vector, at: Index, count: int = lanes) -> Vector:
                if what.mask is not None:
                    place = starts["mask"] + (top + row) * what.mask.row + at * what.mask.column
                    if what.mask.column == 0:
                        value = value + tir.splat(self.buffers["mask"][place], lanes)
                    else:
                        value = value + load_part(self.buffers["mask"], place, count, lanes)
                if what.causal is not None:
                    last = tir.splat(tir.least(top + row + what.causal, what.count - 1), lanes)
                    value = tirx.Select(tirx.Ramp(tir.index(at), tir.index(1), lanes) <= last, value, nothing)
                return value

            def end(value: Vector, at: Index) -> Vector:
                if not (rest and whole):
                    return adjust(value, at)
                real = [lane if lane < rest else lanes + lane for lane in range(lanes)]
                return shuffle([T.Bind(adjust(value, at, rest)), nothing], real)

            factor = exponentials(
                self.scores,
                T.Bind(row * plan.pitch),
                columns,
                lanes,
                adjust,
                end,
                0.0 if what.zeros else math.nan,
            )
            tir.store(self.factors, factor * tir.number(what.alpha) if what.alpha != 1 else factor, row)

    def _mixed(self, starts: dict[str, Index], top: Index, rows: int, seen: Index) -> None:
        plan, what, lanes = self.plan, self.what, self.lanes
        values, out = self.buffers["values"], self.buffers["out"]
        corner, width = T.Bind(starts["out"] + top * what.out.row), plan.mixed.width

        def element(row: Index, at: Index) -> Expr:
            return self.scores[row * plan.pitch + at]

        def panel(number: Index, columns: int) -> None:
            first = T.Bind(tir.index(number * width))
            if self.values is None:
                first = T.Bind(tir.least(first, what.width - width))

            def vector(start: int, at: Index) -> Vector:
                if self.values is not None:
                    return self.values.read(number, start, at)
                return values[tir.vector(starts["values"] + at * what.values.row + first + start, lanes)]

            def finish(sums: Sums, row: Index) -> None:
                for line, start, value in sums.values():
                    value = value * tir.splat(self.factors[row + line], lanes)
                    place = corner + (row + line) * what.out.row + first + start
                    for offset, size, piece in split(value, sums.count(start), lanes):
                        tir.store(out, piece, tir.vector(place + offset, size))

            self._outer(plan.mixed, rows, columns, seen, element, vector, finish)

        self._each_panel(what.width, width, what.width, self.values is None, panel)

    def _outer(
        self,
        blocking: Blocking,
        rows: int,
        columns: int,
        depth: Index,
        element: Element,
        vector: Columns,
        finish: Callable[[Sums, Index], None],
    ) -> None:
        """All rows of a block by one panel."""
        zero = tir.zeros(self.lanes)
        height = ceil_div(rows, ceil_div(rows, blocking.rows))
        tiles = self._rows(rows, height)
        outer_products(
            tiles,
            columns,
            depth,
            self.lanes,
            blocking.chains,
            element,
            vector,
            lambda sums, _: sums.begin(lambda *_: zero),
            finish,
        )

    def _each_panel(
        self, columns: int, width: int, seen: Index, overlap: bool, panel: Callable[[Index, int], None]
    ) -> None:
        """``panel(number, columns)`` for all that have something that is ``seen``; where panels ``overlap``
        the last one is whole as well."""
        whole, rest = (ceil_div(columns, width), 0) if overlap else divmod(columns, width)
        some: Index = whole
        if not isinstance(seen, int):
            some = T.Bind(tir.least(whole, (seen + (width - 1)) // width))
        with T.serial(0, some) as number:
            panel(number, width)
        if rest:
            with tir.when(None if isinstance(seen, int) else seen > whole * width):
                panel(tir.index(whole), rest)
