"""The loop nest of the exact quantized Winograd convolution."""

from __future__ import annotations

from kernels.emit import tir
from kernels.emit.tir import const, registers, reinterpret, scratch
from kernels.emit.tvm import T
from kernels.emit.types import Expr, Index
from kernels.int8 import wrapping
from kernels.int8.band import by_vectors, emit_band
from kernels.int8.tir import QArguments
from kernels.int8.x86.instructions import WAYS, add_pairs, prefetch
from kernels.int8.x86.winograd.axis import both
from kernels.int8.x86.winograd.plan import BLOCKS, Plan
from kernels.int8.x86.winograd.results import Results

WORDS = WAYS["words"]


def emit(plan: Plan, args: QArguments) -> None:
    """Blocks of tiles: transform, one matrix product a point, transform back and requantize."""
    Nest(plan, args).emit()


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.outer, self.inner = (1, plan.threads) if plan.knobs.split == BLOCKS else (plan.threads, 1)

    def emit(self) -> None:
        """Bands of tiles of every image, in blocks."""
        plan = self.plan
        (down, across), rows, columns = plan.plane, plan.knobs.rows, plan.knobs.columns
        bands = plan.bands // self.conv.n
        with tir.loop(plan.bands, self.outer) as number:
            image, row = T.Bind(number // bands), T.Bind(number % bands * rows)
            if bands * rows != down:
                row = T.Bind(tir.least(row, down - rows))  # the last band ends with the plane
            self.copy = scratch(plan.band.elements, "int16")
            self.transformed = scratch(plan.points * plan.data_pitch, "int16")
            self.sums = scratch(plan.slabs * plan.points * plan.sums_pitch, "int32")
            top = row * plan.axes[0].results
            emit_band(plan.band, self.args.data, self.copy, image, top, plan.bits // 16)
            with tir.loop(plan.parts) as part:
                column = T.Bind(part * columns)
                if plan.parts * columns != across:
                    column = T.Bind(tir.least(column, across - columns))
                results = Results(plan, self.args, self.sums, image, row, column)
                self._forward(column)
                if plan.filters_outside:
                    self._filters_outside(results)
                else:
                    self._points_outside()
                    with tir.loop(plan.filters // plan.lanes, self.inner) as vector:
                        filters = T.Bind(vector * plan.lanes)
                        results.emit(filters, filters)

    def _forward(self, column: Expr) -> None:
        """Every tile to its points, by vectors of channels."""
        plan, pitch, in_c = self.plan, self.plan.band.pitch, self.conv.in_c
        rows, columns = plan.knobs.rows, plan.knobs.columns
        down, across = plan.axes

        def tile(number: Expr, row: Expr, x: Expr) -> None:
            source = T.Bind(row * (down.results * pitch) + (column + x) * (across.results * in_c))

            def channels(at: Index, width: int) -> None:
                start = T.Bind(source + at)
                lines = [
                    [
                        T.Bind(self.copy[tir.vector(start + i * pitch + j * in_c, width)])
                        for j in range(across.points)
                    ]
                    for i in range(down.points)
                ]
                values = both(down.forward, across.forward, lines, T.Bind)
                for point, value in enumerate(value for line in values for value in line):
                    target = point * plan.data_pitch + number * (2 * plan.units) + at
                    tir.store(self.transformed, value, tir.vector(target, width))

            by_vectors(in_c, plan.bits // 16, channels)

        with tir.loop(rows, self.inner) as row, tir.loop(columns) as x:
            tile(T.Bind(row * columns + x), row, x)

    def _filters_outside(self, results: Results) -> None:
        """Tile of filters after tile, through all points and back: its sums are few and stay in L1."""
        plan, lanes = self.plan, self.plan.lanes
        for first, vectors, count in plan.filter_tiles():
            with tir.loop(count) as panel:
                vector = T.Bind(first + panel * vectors)
                with tir.loop(plan.points) as point:
                    self._point(point, vector, vectors, 0)
                with tir.loop(vectors) as j:
                    results.emit(T.Bind((vector + j) * lanes), T.Bind(j * lanes))

    def _points_outside(self) -> None:
        """Point after point, for all filters: the tiles of a point stay in L1."""
        plan = self.plan
        with tir.loop(plan.points, self.inner) as point:
            for first, vectors, count in plan.filter_tiles():
                with tir.loop(count) as panel:
                    vector = T.Bind(first + panel * vectors)
                    self._point(point, vector, vectors, vector * plan.lanes)

    def _point(self, point: Expr, vector: Expr, vectors: int, place: Index) -> None:
        """All tiles of one point by one tile of filters, to ``place`` in the rows of sums of each slab."""
        plan = self.plan
        whole, rest = divmod(plan.units, plan.slab)
        with tir.loop(whole) as slab:
            self._slab(point, vector, vectors, slab, plan.slab, place)
        if rest:
            self._slab(point, vector, vectors, whole, rest, place)

    def _slab(self, point: Expr, vector: Expr, vectors: int, slab: Index, units: int, place: Index) -> None:
        """The same of the ``units`` pairs of channels of one slab."""
        plan = self.plan
        start = T.Bind(slab * plan.slab)
        weights = (point * plan.filters + vector * plan.lanes) * (2 * plan.units)
        weights = T.Bind(weights + start * (2 * vectors * plan.lanes))
        data = T.Bind(point * plan.data_pitch + start * 2)
        target = T.Bind((slab * plan.points + point) * plan.sums_pitch + place)

        def block(size: int, first: Expr) -> None:
            tiles, sums = data + first * (2 * plan.units), target + first * plan.sums_row
            self._micro(size, vectors, units, T.Bind(tiles), weights, T.Bind(sums))

        tir.blocks(plan.tiles, plan.block, block)

    def _micro(self, tiles: int, vectors: int, units: int, data: Expr, weights: Expr, target: Expr) -> None:
        """The sums of a block, over ``units`` pairs of channels, from where its data and filters begin."""
        plan, lanes = self.plan, self.plan.lanes
        slots = [[tir.vector((i * vectors + j) * lanes, lanes) for j in range(vectors)] for i in range(tiles)]
        sums = registers(tiles * vectors * lanes, "int32")
        for row in slots:
            for slot in row:
                tir.store(sums, const(0, lanes=lanes), slot)
        with tir.loop(units) as step:
            base = weights + step * (2 * vectors * lanes)
            panel = [
                T.Bind(self.args.weights[tir.vector(base + 2 * j * lanes, 2 * lanes)]) for j in range(vectors)
            ]
            if plan.knobs.prefetch:
                size = 2 * vectors * lanes
                ahead = 2 * plan.units * plan.filters if plan.filters_outside else plan.units * size
                prefetch(self.args.weights, base + ahead, size)
            for i in range(tiles):
                at = data + (i * plan.units + step) * 2
                value = T.Bind(reinterpret(WORDS.unit_at(self.transformed, at, lanes), "int16", 2 * lanes))
                for slot, filters in zip(slots[i], panel, strict=True):
                    product = add_pairs(value, filters, plan.bits)
                    tir.store(sums, wrapping.added(sums[slot], product, lanes), slot)
        for i in range(tiles):
            for j in range(vectors):
                at = target + i * plan.sums_row + j * lanes
                tir.store(self.sums, sums[slots[i][j]], tir.vector(at, lanes))
