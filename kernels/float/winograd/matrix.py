"""Winograd whose matrix products are those of POWER10's matrix unit (seed 003, section 5.1).

The unit multiplies four tiles of a channel by four filters, so each four tiles of four channels are turned,
where they lie, once they are transformed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, mma, tir
from kernels.emit.shares import turns
from kernels.emit.tvm import T
from kernels.emit.types import Index
from kernels.emit.vectors import transpose
from kernels.float.winograd.kernel import Winograd, WinogradPlan
from kernels.float.winograd.product import Products
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.base import Conv2d

ACCUMULATORS = 8
TURN_CYCLES = 10.0
"""Four vectors that are loaded, turned and stored again."""


class MatrixProducts(Products):
    """The products of one block, in accumulators."""

    @staticmethod
    @contextmanager
    def linked() -> Iterator[None]:
        """Within it products may be emitted."""
        with code_shape.linked(), mma.linked():
            yield

    def run(self) -> None:
        """Turn all tiles, then multiply."""
        plan, lanes = self.plan, self.lanes
        with (
            tir.loop(self.threads, self.threads) as thread,
            turns(plan.points * plan.in_vectors, thread, self.threads) as item,
        ):
            point, vector = T.Bind(item // plan.in_vectors), T.Bind(item % plan.in_vectors)
            start = T.Bind(point * plan.in_pitch + plan.at(vector, 0))
            with tir.loop(plan.places // mma.SIDE) as four:
                at = T.Bind(start + four * (mma.SIDE * lanes))
                places = [tir.vector(at + row * lanes, lanes) for row in range(mma.SIDE)]
                rows = [T.Bind(self.transformed[place]) for place in places]
                for place, value in zip(places, transpose(rows), strict=True):
                    tir.store(self.transformed, value, place)
        super().run()

    def _micro(
        self, rows: int, first: Index, weights: Index, source: Index, target: Index, depth: int, fresh: bool
    ) -> None:
        """``rows`` tiles by one panel over ``depth`` channels."""
        plan, lanes = self.plan, self.lanes
        high = ceil_div(rows, mma.SIDE) * mma.SIDE
        cells = [(row, vector) for row in range(high) for vector in range(plan.vectors)]
        slots = {cell: tir.vector(number * lanes, lanes) for number, cell in enumerate(cells)}
        places = {
            (row, vector): tir.vector(target + plan.at(vector, first + row), lanes) for row, vector in cells
        }
        sums = tir.registers(len(cells) * lanes)
        unit = mma.Accumulators(high, plan.vectors)
        for cell, slot in slots.items():
            tir.store(sums, tir.zeros(lanes) if fresh else self.products[places[cell]], slot)
        unit.load(sums)

        def channels(tiles: Index, filters: Index, count: int) -> None:
            for lane in range(count):
                here = filters + lane * plan.width
                columns = [here + vector * lanes for vector in range(plan.vectors)]
                unit.add(
                    self.transformed, tiles + lane * mma.SIDE, self.args.weights, columns, mma.SIDE * lanes
                )

        with tir.loop(depth // lanes) as at:
            tiles = T.Bind(source + plan.at(at, first))
            filters = T.Bind(weights + at * (lanes * plan.width))
            if plan.groups > 1:
                self._fetch(T.Bind(filters + depth * plan.width), first)
            channels(tiles, filters, lanes)
        if depth % lanes:
            at = depth // lanes
            channels(source + plan.at(at, first), weights + at * lanes * plan.width, depth % lanes)
        unit.store(sums)
        for cell, slot in slots.items():
            tir.store(self.products, sums[slot], places[cell])


class MatrixPlan(WinogradPlan):
    """A plan whose register block is made of 4x4 accumulators."""

    products = MatrixProducts

    @property
    def rows(self) -> int:
        """Tiles of a register block: as many accumulators as there are beside each other."""
        return max(1, ACCUMULATORS // self.vectors) * mma.SIDE

    @property
    def places(self) -> int:
        """Tiles by four."""
        return ceil_div(self.tiles, mma.SIDE) * mma.SIDE

    def step_cycles(self, rows: int) -> float:
        """One product of each sum; those of missing tiles are computed, too."""
        return mma.step_cycles(self.target, rows, self.vectors)

    @property
    def turning_cycles(self) -> float:
        """Each four tiles of four channels."""
        return TURN_CYCLES * self.points * self.in_vectors * (self.places // mma.SIDE)


class MatrixWinograd(Winograd):
    """Winograd by the matrix unit; its knobs are those of ``plan.Knobs``."""

    name = "winograd_mma"
    version = 1
    plan_type = MatrixPlan

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """What Winograd computes, on targets with POWER10's matrix unit."""
        if target.matrix != mma.NAME:
            return f"{target.name} has no matrix unit of POWER10's kind"
        return super().why_unfit(workload, target)

    def knobs(self, workload: Conv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """As of Winograd, with blocks of two or four vectors of filters."""
        vectors = sorted({min(each, ceil_div(workload.out_c, target.lanes())) for each in (2, 4)})
        return {**super().knobs(workload, target, layouts, threads), "vectors": vectors}
