"""From the sums of Winograd's points back to stored results, a vector of filters of one tile at a time."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tir import const
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Vector
from kernels.int8 import wrapping
from kernels.int8.tir import QArguments, store_filters
from kernels.int8.x86.finish import Finish
from kernels.int8.x86.winograd.axis import both
from kernels.int8.x86.winograd.plan import Plan

TOGETHER = 4
"""Results that become bytes in one vector."""


@dataclass(frozen=True)
class Words:
    """Lanes of int32 that are computed modulo 2^32."""

    value: Vector
    lanes: int

    def __add__(self, other: Words) -> Words:
        return Words(wrapping.added(self.value, other.value, self.lanes), self.lanes)

    def __sub__(self, other: Words) -> Words:
        return Words(wrapping.subtracted(self.value, other.value, self.lanes), self.lanes)

    def __lshift__(self, bits: int) -> Words:
        return Words(tirx.shift_left(self.value, const(bits, lanes=self.lanes)), self.lanes)

    def kept(self) -> Words:
        """The same under a name."""
        return Words(T.Bind(self.value), self.lanes)


class Results:
    """The way back of a block of tiles, the first at (``row``, ``column``), whose sums are in ``sums``."""

    def __init__(
        self, plan: Plan, args: QArguments, sums: Buffer, image: Expr, row: Expr, column: Expr
    ) -> None:
        self.plan, self.conv, self.args, self.sums = plan, plan.conv, args, sums
        self.image, self.row, self.column = image, row, column
        lanes = plan.lanes
        self.finish = Finish(args, plan.knobs.requant, plan.bits)
        down, across = plan.axes
        self.loss = const(down.loss + across.loss, lanes=lanes)
        inverse = pow(down.odd * across.odd, -1, 1 << 32)
        self.inverse = const(inverse - (inverse >> 31 << 32), lanes=lanes) if inverse > 1 else None
        # How much of the last tile is inside, down and across.
        ends = (self.conv.out_h, self.conv.out_w)
        self.inside = [
            end - (count - 1) * axis.results
            for count, end, axis in zip(plan.plane, ends, plan.axes, strict=True)
        ]

    def emit(self, filters: Expr, place: Expr) -> None:
        """All tiles' results of the vector from ``filters`` on, whose sums are at ``place`` in their rows."""
        plan, lanes = self.plan, self.plan.lanes
        down, across = plan.axes
        bias = T.Bind(self.args.bias[tir.vector(filters, lanes)])
        finished = self.finish.four(filters)
        with tir.loop(plan.knobs.rows) as y, tir.loop(plan.knobs.columns) as x:
            start = T.Bind((y * plan.knobs.columns + x) * plan.sums_row + place)
            top = T.Bind((self.row + y) * down.results)
            left = T.Bind((self.column + x) * across.results)
            slabs = [self._back(start + slab * (plan.points * plan.sums_pitch)) for slab in range(plan.slabs)]
            cells = [(i, j) for i in range(down.results) for j in range(across.results)]
            for first in range(0, len(cells), TOGETHER):
                some = cells[first : first + TOGETHER]
                totals = [self._total([slab[i][j] for slab in slabs], bias) for i, j in some]
                for (i, j), result in zip(some, list(finished(totals)), strict=True):
                    self._store(result, filters, top, left, i, j)

    def _sum(self, at: Expr) -> Words:
        return Words(self.sums[tir.vector(at, self.plan.lanes)], self.plan.lanes).kept()

    def _back(self, start: Expr) -> list[list[Words]]:
        """One slab's sums of a tile, transformed back."""
        plan = self.plan
        down, across = plan.axes
        lines = [
            [self._sum(start + (i * across.points + j) * plan.sums_pitch) for j in range(across.points)]
            for i in range(down.points)
        ]
        return both(down.backward, across.backward, lines, Words.kept)

    def _total(self, slabs: list[Words], bias: Vector) -> Vector:
        """What the transforms multiplied by is taken off again: by an inverse modulo 2^32, then a shift."""
        total = bias
        for slab in slabs:
            value = slab.value
            if self.inverse is not None:
                value = wrapping.multiplied(value, self.inverse, self.plan.lanes)
            total = T.Bind(wrapping.added(tirx.shift_right(value, self.loss), total, self.plan.lanes))
        return total

    def _store(self, result: Vector, filters: Expr, top: Expr, left: Expr, i: int, j: int) -> None:
        """One pixel, where it is inside the plane."""
        conv = self.conv
        inside = [top + i < conv.out_h] * (i >= self.inside[0])
        inside += [left + j < conv.out_w] * (j >= self.inside[1])
        with tir.when(tirx.all(*inside) if inside else None):
            pixel = (self.image * conv.out_h + top + i) * conv.out_w + left + j
            at = T.Bind(pixel * conv.out_c + filters)
            store_filters(self.args.out, result, at, filters, conv.out_c, self.plan.filters, self.plan.lanes)
