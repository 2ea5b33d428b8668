"""Attention of as many rows and keys as there are at run time: columns of keys that are none become zeros of
the Softmax, and are nowhere read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.open_rows import OpenRows, chosen, held, quotient
from kernels.emit.outer_product import Sums
from kernels.emit.shares import turns
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, Vector
from kernels.emit.vectors import split
from kernels.float.attention.plan import Plan
from kernels.float.attention.softmax import exponentials
from kernels.float.matmul.blocking import PACKED, PLACE
from kernels.float.matmul.columns import Panels
from kernels.float.matmul.tiles import outer_products
from kernels.workload.view import View


@dataclass(frozen=True)
class Lies:
    """How many rows and keys there are, and how arrays lie: numbers, or expressions known at run time."""

    rows: Index
    count: Index
    queries: View
    keys: View
    values: View
    out: View
    mask: View | None


def why_not_open(plan: Plan) -> str | None:
    """Why there is no such code of a plan, or None when there is."""
    return None if plan.scores.way == PACKED else "keys that are not packed"


def emit_open(plan: Plan, inputs: Sequence[Buffer], out: Buffer, lies: Lies) -> None:
    """All groups of the batch that share keys and values, each thread its share of them.

    The plan's workload has the most rows and keys that there may be.
    """
    names = ("queries", "keys", "values", "mask")
    _OpenEmitter(plan, {**dict(zip(names, inputs, strict=False)), "out": out}, lies)


class _OpenEmitter:
    def __init__(self, plan: Plan, buffers: dict[str, Buffer], lies: Lies) -> None:
        self.plan, self.what, self.lanes, self.lies = plan, plan.workload, plan.lanes, lies
        self.buffers = buffers
        what, room = plan.workload, plan.block * plan.pitch
        self.pitch = held(quotient(lies.count + (self.lanes - 1), self.lanes) * self.lanes)
        fitting, height = held(quotient(tir.index(room), self.pitch)), plan.scores.rows
        self.block = held(tirx.Select(fitting >= height, quotient(fitting, height) * height, fitting))
        with tir.loop(plan.parts, plan.parts) as thread:
            self.scores = tir.scratch(room)
            self.factors = tir.scratch(max(plan.block, min(what.rows, room // self.lanes)))
            self.tail = tir.registers(self.lanes)
            self.keys = Panels(what.depth, what.count, plan.scores.width, self.lanes)
            self.values = None
            if plan.mixed.way != PLACE:
                self.values = Panels(what.count, what.width, plan.mixed.width, self.lanes)
            with turns(plan.groups, thread, plan.parts) as group:
                self._group(group)

    def _group(self, group: Index) -> None:
        """All places of the batch that share keys and values."""
        plan, what, lies = self.plan, self.what, self.lies
        first = held(group * plan.shared)
        starts = {
            name: held(tir.index(view.start(first, what.extents)))
            for name, view in (("keys", lies.keys), ("values", lies.values))
        }
        self.keys.fill_columns(self.buffers["keys"], lies.keys, starts["keys"], lies.count, what.depth)
        if self.values is not None:
            self.values.fill_rows(
                self.buffers["values"], lies.values, starts["values"], what.width, lies.count
            )
        with tir.loop(plan.shared) as number:
            place = held(first + number)
            for name, view in (("queries", lies.queries), ("out", lies.out), ("mask", lies.mask)):
                if view is not None:
                    starts[name] = held(tir.index(view.start(place, what.extents)))
            if lies.mask is not None and not self._mask_by_row:
                self._fill_tail(starts["mask"])
            with tir.loop(held(quotient(lies.rows + (self.block - 1), self.block))) as block:
                top = held(block * self.block)
                self._block(starts, top, held(tir.least(self.block, lies.rows - top)))

    @property
    def _mask_by_row(self) -> bool:
        """Whether rows have masks of their own."""
        mask = self.lies.mask
        return mask is not None and not (isinstance(mask.row, int) and mask.row == 0)

    def _fill_tail(self, start: Index) -> None:
        """Keep what the last vector of a row has of the mask: it may not be read as a whole."""
        first = held(self.pitch - self.lanes)
        with T.serial(0, self.lies.count - first) as at:
            mask = self.lies.mask
            assert mask is not None
            place = start + (first + at) * mask.column
            tir.store(self.tail, self.buffers["mask"][place], at)

    def _block(self, starts: dict[str, Index], top: Index, rows: Index) -> None:
        """``rows`` rows from ``top`` on."""
        seen = self.lies.count
        if self.what.causal is not None:
            seen = held(tir.least(top + (rows + self.what.causal), seen))
        self._scores(starts, top, rows, seen)
        self._softmax(starts, top, rows, seen)
        self._mixed(starts, top, rows, seen)

    def _scores(self, starts: dict[str, Index], top: Index, rows: Index, seen: Index) -> None:
        plan, what, lanes, view = self.plan, self.what, self.lanes, self.lies.queries
        queries, corner = self.buffers["queries"], held(starts["queries"] + top * view.row)
        whole, rest = self._panels(held(quotient(seen + (lanes - 1), lanes)), plan.scores.vectors)

        def element(row: Index, at: Index) -> Expr:
            return queries[corner + row * view.row + at * view.column]

        def panel(number: Index, columns: int) -> None:
            def finish(sums: Sums, row: Index) -> None:
                for line, start, value in sums.values():
                    if what.scale != 1:
                        value = value * tir.splat(tir.number(what.scale), lanes)
                    at = (row + line) * self.pitch + number * plan.scores.width + start
                    tir.store(self.scores, value, tir.vector(at, lanes))

            self._outer(
                rows,
                plan.scores.rows,
                columns,
                what.depth,
                plan.scores.chains,
                element,
                lambda start, at: self.keys.read(number, start, at),
                finish,
            )

        with T.serial(0, whole) as number:
            panel(number, plan.scores.width)
        if plan.scores.vectors > 1:
            with tir.when(rest > 0):
                chosen(rest, range(1, plan.scores.vectors), lambda vectors: panel(whole, vectors * lanes))

    def _panels(self, vectors: Expr, width: int) -> tuple[Expr, Expr]:
        whole = held(quotient(vectors, width))
        return whole, held(vectors - whole * width)

    def _softmax(self, starts: dict[str, Index], top: Index, rows: Index, seen: Index) -> None:
        what, lanes, count, mask = self.what, self.lanes, self.lies.count, self.lies.mask
        nothing = tir.splat(tir.number(-math.inf), lanes)
        columns = self.pitch
        if what.causal is not None and mask is None:
            columns = held(quotient(seen + (lanes - 1), lanes) * lanes)
        with tir.loop(rows) as row:
            last = held(count - 1)
            if what.causal is not None:
                last = held(tir.least(top + row + what.causal, last))
            line = 0
            if mask is not None:
                line = held(starts["mask"] + (top + row) * mask.row)
                if self._mask_by_row:
                    self._fill_tail(line)

            def seen_of(value: Vector, at: Index) -> Vector:
                return tirx.Select(
                    tirx.Ramp(tir.index(at), tir.index(1), lanes) <= tir.splat(last, lanes), value, nothing
                )

            def adjust(value: Vector, at: Index) -> Vector:
                if mask is not None:
                    place = line + at * mask.column
                    if isinstance(mask.column, int) and mask.column == 0:
                        value = value + tir.splat(self.buffers["mask"][place], lanes)
                    else:
                        value = value + self.buffers["mask"][tir.vector(place, lanes)]
                return value if what.causal is None else seen_of(value, at)

            def end(value: Vector, at: Index) -> Vector:
                if mask is not None:
                    value = value + self.tail[tir.vector(0, lanes)]
                return seen_of(value, at)

            empty = 0.0 if what.zeros else math.nan
            start = held(row * self.pitch)
            factor = exponentials(self.scores, start, columns, lanes, adjust, end, empty)
            tir.store(self.factors, factor * tir.number(what.alpha) if what.alpha != 1 else factor, row)

    def _mixed(self, starts: dict[str, Index], top: Index, rows: Index, seen: Index) -> None:
        plan, what, lanes, view = self.plan, self.what, self.lanes, self.lies.values
        values, out = self.buffers["values"], self.buffers["out"]
        line, width = self.lies.out.row, plan.mixed.width
        corner = held(starts["out"] + top * line)

        def element(row: Index, at: Index) -> Expr:
            return self.scores[row * self.pitch + at]

        def panel(number: Index, columns: int) -> None:
            first = held(tir.index(number * width))
            if self.values is None:
                first = held(tir.least(first, what.width - width))

            def vector(start: int, at: Index) -> Vector:
                if self.values is not None:
                    return self.values.read(number, start, at)
                return values[tir.vector(starts["values"] + at * view.row + first + start, lanes)]

            def finish(sums: Sums, row: Index) -> None:
                for each, start, value in sums.values():
                    value = value * tir.splat(self.factors[row + each], lanes)
                    place = corner + (row + each) * line + first + start
                    for offset, size, piece in split(value, sums.count(start), lanes):
                        tir.store(out, piece, tir.vector(place + offset, size))

            self._outer(rows, plan.mixed.rows, columns, seen, plan.mixed.chains, element, vector, finish)

        overlap = self.values is None
        whole, rest = (ceil_div(what.width, width), 0) if overlap else divmod(what.width, width)
        with T.serial(0, whole) as number:
            panel(number, width)
        if rest:
            panel(tir.index(whole), rest)

    def _outer(
        self,
        rows: Index,
        most: int,
        columns: int,
        depth: Index,
        chains: int,
        element: Callable[[Index, Index], Expr],
        vector: Callable[[int, Index], Vector],
        finish: Callable[[Sums, Index], None],
    ) -> None:
        """All rows of a block by one panel."""
        zero = tir.zeros(self.lanes)
        outer_products(
            OpenRows(rows, most),
            columns,
            depth,
            self.lanes,
            chains,
            element,
            vector,
            lambda sums, _: sums.begin(lambda *_: zero),
            finish,
        )
