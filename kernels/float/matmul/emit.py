"""The code of a product of two activations."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.arithmetic import ceil_div, even
from kernels.emit import tir
from kernels.emit.outer_product import Sums
from kernels.emit.shares import share, turns
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import load_part, split
from kernels.float.matmul.columns import Panels
from kernels.float.matmul.plan import Plan
from kernels.float.matmul.tiles import Element, Rows, inner_products, outer_products


def emit(plan: Plan, inputs: Sequence[Buffer], out: Buffer) -> None:
    """All products, each thread its share of them or of their rows."""
    a, b = inputs
    _Emitter(plan, a, b, out).run()


class _Emitter:
    def __init__(self, plan: Plan, a: Buffer, b: Buffer, out: Buffer) -> None:
        self.plan, self.product, self.lanes = plan, plan.workload, plan.lanes
        self.way, self.height, self.width = plan.knobs.way, plan.blocking.height, plan.blocking.width
        self.chains = plan.knobs.chains
        self.a, self.b, self.out = a, b, out

    def run(self) -> None:
        """All products, each thread its share of them or of their rows."""
        plan, product = self.plan, self.product
        whole, edge = divmod(product.m, self.height)
        with tir.loop(plan.parts, plan.parts) as thread:
            panels = None
            if self.way == "packed":
                panels = Panels(plan.deepest, plan.widest, self.width, self.lanes)
            with turns(product.batch * plan.splits, thread, plan.parts) as item:
                place = T.Bind(item // plan.splits)
                part = share(whole, edge > 0, item % plan.splits, plan.splits)
                rows = Rows(part, self.height, edge, whole * self.height)
                views = (product.a, product.b, product.out)
                starts = [T.Bind(tir.index(view.start(place, product.extents))) for view in views]
                if panels is not None:
                    tir.blocks(
                        product.n, plan.widest, lambda n, at: self._strip(rows, panels, n, at, *starts)
                    )
                elif self.way == "rows":
                    self._inner(rows, *starts)
                else:
                    self._in_place(rows, *starts)

    def _strip(self, rows: Rows, panels: Panels, columns: int, first: Index, *starts: Index) -> None:
        """Columns that are packed at a time, one block of k after another."""
        plan, product = self.plan, self.product
        a, b, out = starts
        whole, rest = divmod(columns, self.width)
        base = 0
        for depth, count in even(product.k, plan.knobs.depth):
            with tir.loop(count) as number:
                at = T.Bind(base + number * depth)
                corner = T.Bind(b + at * product.b.row + first * product.b.column)
                panels.fill(self.b, product.b, corner, columns, depth)
                left, right = T.Bind(a + at * product.a.column), T.Bind(out + first)
                with tir.loop(whole) as panel:
                    self._panel(rows, panels, panel, self.width, left, right, at, depth)
                if rest:
                    self._panel(rows, panels, tir.index(whole), rest, left, right, at, depth)
            base += depth * count

    def _panel(
        self,
        rows: Rows,
        panels: Panels,
        panel: Index,
        columns: int,
        a: Index,
        out: Index,
        at: Index,
        depth: int,
    ) -> None:
        product = self.product
        right = T.Bind(out + panel * self.width)
        first, last = (None, None) if depth == product.k else (at == 0, at == product.k - depth)

        def vector(start: int, at: Index) -> Vector:
            return panels.read(panel, start, at)

        def begin(sums: Sums, top: Index) -> None:
            def unfinished(row: int, start: int) -> Vector:
                place = right + (top + row) * product.out.row + start
                return load_part(self.out, place, sums.count(start), self.lanes)

            tir.choose(first, lambda: self._zero(sums, top), lambda: sums.begin(unfinished))

        def finish(sums: Sums, top: Index) -> None:
            tir.choose(
                last,
                lambda: self._store(sums, top, right, product.alpha),
                lambda: self._store(sums, top, right),
            )

        element = self._element(a)
        outer_products(rows, columns, depth, self.lanes, self.chains, element, vector, begin, finish)

    def _in_place(self, rows: Rows, a: Index, b: Index, out: Index) -> None:
        """Blocks of columns read where they lie; the last one overlaps the one before."""
        product = self.product
        with tir.loop(ceil_div(product.n, self.width)) as turn:
            column = T.Bind(tir.least(turn * self.width, product.n - self.width))
            corner = T.Bind(b + column)

            def vector(start: int, at: Index) -> Vector:
                return self.b[tir.vector(corner + at * product.b.row + start, self.lanes)]

            def finish(sums: Sums, top: Index) -> None:
                self._store(sums, top, out + column, product.alpha)

            element = self._element(a)
            outer_products(
                rows, self.width, product.k, self.lanes, self.chains, element, vector, self._zero, finish
            )

    def _inner(self, rows: Rows, a: Index, b: Index, out: Index) -> None:
        product, lanes = self.product, self.lanes

        def left(row: Index, at: Index, count: int) -> Vector:
            return load_part(self.a, a + row * product.a.row + at, count, lanes)

        def right(column: Index, at: Index, count: int) -> Vector:
            return load_part(self.b, b + column * product.b.column + at, count, lanes)

        def store(row: Index, column: Index, value: Vector) -> None:
            value = value * tir.splat(tir.number(product.alpha), lanes) if product.alpha != 1 else value
            tir.store(self.out, value, tir.vector(out + row * product.out.row + column, lanes))

        inner_products(rows, product.n, product.k, lanes, left, right, store)

    def _element(self, a: Index) -> Element:
        product = self.product
        return lambda row, at: self.a[a + row * product.a.row + at * product.a.column]

    def _zero(self, sums: Sums, _: Index) -> None:
        sums.begin(lambda row, start: tir.zeros(self.lanes))

    def _store(self, sums: Sums, top: Index, out: Index, factor: float = 1.0) -> None:
        for row, start, value in sums.values():
            if factor != 1:
                value = value * tir.splat(tir.number(factor), self.lanes)
            for offset, width, part in split(value, sums.count(start), self.lanes):
                place = out + (top + row) * self.product.out.row + start + offset
                tir.store(self.out, part, tir.vector(place, width))
