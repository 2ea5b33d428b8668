"""The loop nest of the exact quantized Winograd convolution. TVM objects are Any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.qband import Band, by_vectors, emit_band
from kernels.qtir import QArguments, const, registers, scratch, store_filters
from kernels.qworkload import QConv2d
from kernels.qx86 import WAYS, prefetch, scaling
from kernels.requantize import Requantizer
from kernels.space import Config
from kernels.target import Target

WORDS = WAYS["words"]
BANDS, BLOCKS = "bands", "blocks"
"""What threads share out: bands of tiles, or each block's rows, points and filters in turn."""
FORWARD = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
BACKWARD = ((1, 1, 1, 0), (0, 1, -1, -1))


@dataclass(frozen=True)
class Plan:
    """A config as numbers. Sizes are in elements."""

    conv: QConv2d
    rows: int
    columns: int
    block: int
    vectors: int
    prefetch: bool
    split: str
    filters_outside: bool
    requant: str
    bits: int

    @classmethod
    def of(cls, conv: QConv2d, config: Config, target: Target) -> Plan:
        """Read a config."""
        block, vectors = map(int, str(config["block"]).split("x"))
        rows, columns = config.int("rows"), config.int("columns")
        return cls(
            conv=conv,
            rows=rows,
            columns=columns,
            block=block,
            vectors=vectors,
            prefetch=config.int("prefetch") > 0,
            split=str(dict(config.knobs).get("split", BANDS)),
            filters_outside=config["order"] == "filters",
            requant=str(config["requant"]),
            bits=target.vector_bits,
        )

    @property
    def lanes(self) -> int:
        """Filters in a vector."""
        return self.bits // 32

    @property
    def tiles(self) -> int:
        """Tiles of 2x2 results that are transformed at a time."""
        return self.rows * self.columns

    @property
    def filters(self) -> int:
        """Filters, filled up to whole vectors."""
        return -(-self.conv.out_c // self.lanes) * self.lanes

    @property
    def units(self) -> int:
        """Pairs of channels."""
        return -(-self.conv.in_c // 2)

    @property
    def packed_length(self) -> int:
        """Elements of the transformed filters."""
        return 16 * 2 * self.units * self.filters

    @property
    def transformed(self) -> int:
        """Elements of a block of transformed tiles."""
        return 16 * self.tiles * 2 * self.units

    @property
    def sums(self) -> int:
        """Elements of a block's sums."""
        filters = min(self.filters, self.vectors * self.lanes) if self.filters_outside else self.filters
        return 16 * self.tiles * filters

    @property
    def band(self) -> Band:
        """The rows that a row of blocks needs; odd planes get one more row and column."""
        top, left, bottom, right = self.conv.pad
        bottom, right = bottom + self.conv.out_h % 2, right + self.conv.out_w % 2
        even = replace(self.conv, pad=(top, left, bottom, right))
        return Band(even, 2 * self.rows, "int16", 0, 2)

    def panels(self) -> list[tuple[int, int, int]]:
        """(first vector, vectors, count) of tiles of filters: whole ones, then what is left."""
        whole, rest = divmod(self.filters // self.lanes, self.vectors)
        return [(0, self.vectors, whole)] * (whole > 0) + [(whole * self.vectors, rest, 1)] * (rest > 0)


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments, threads: int) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.outer, self.inner = (1, threads) if plan.split == BLOCKS else (threads, 1)
        self.down, self.across = -(-self.conv.out_h // 2), -(-self.conv.out_w // 2)

    def emit(self) -> None:
        """Bands of tiles of every image, in blocks."""
        plan = self.plan
        bands, parts = -(-self.down // plan.rows), -(-self.across // plan.columns)
        with tir.loop(self.conv.n * bands, self.outer) as number:
            image, row = T.Bind(number // bands), T.Bind(number % bands * plan.rows)
            if bands * plan.rows != self.down:
                row = T.Bind(tir.least(row, self.down - plan.rows))  # the last band ends with the plane
            self.copy = scratch(plan.band.elements, "int16")
            self.transformed = scratch(plan.transformed, "int16")
            self.sums = scratch(plan.sums, "int32")
            emit_band(plan.band, self.args.data, self.copy, image, row * 2, plan.bits // 16)
            with tir.loop(parts) as part:
                column = T.Bind(part * plan.columns)
                if parts * plan.columns != self.across:
                    column = T.Bind(tir.least(column, self.across - plan.columns))
                self._forward(column)
                if plan.filters_outside:
                    self._filters_outside(image, row, column)
                else:
                    self._points_outside()
                    self._backward(image, row, column)

    def _tiles(self, one: Callable[[Any, Any, Any], None], threads: int = 1) -> None:
        """``one(number, row, column)`` of each tile of a block."""
        columns = self.plan.columns
        with tir.loop(self.plan.rows, threads) as row, tir.loop(columns) as column:
            one(T.Bind(row * columns + column), row, column)

    def _forward(self, column: Any) -> None:
        """Every tile of 4x4 to its 16 points, by vectors of channels."""
        plan, band, in_c = self.plan, self.plan.band, self.conv.in_c

        def tile(number: Any, row: Any, x: Any) -> None:
            source = T.Bind(row * (2 * band.pitch) + (column + x) * (2 * in_c))

            def channels(at: Any, width: int) -> None:
                start = T.Bind(source + at)
                lines = [
                    [
                        T.Bind(self.copy[tir.vector(start + i * band.pitch + j * in_c, width)])
                        for j in range(4)
                    ]
                    for i in range(4)
                ]
                for point, value in enumerate(_transform(FORWARD, lines)):
                    target = (point * plan.tiles + number) * (2 * plan.units) + at
                    tir.store(self.transformed, value, tir.vector(target, width))

            by_vectors(in_c, plan.bits // 16, channels)

        self._tiles(tile, self.inner)

    def _filters_outside(self, image: Any, row: Any, column: Any) -> None:
        """Tile of filters after tile, through all points and back: its sums are few and stay in L1."""
        plan, lanes = self.plan, self.plan.lanes
        for first, vectors, count in plan.panels():
            pitch = vectors * lanes
            with tir.loop(count) as panel:
                vector = T.Bind(first + panel * vectors)
                with tir.loop(16) as point:
                    self._point(point, vector, vectors, pitch, 0)
                for j in range(0, vectors, 2):
                    filters, wide = T.Bind((vector + j) * lanes), min(2, vectors - j) * lanes
                    self._results(image, row, column, filters, wide, pitch, j * lanes)

    def _points_outside(self) -> None:
        """Point after point, for all filters: the tiles of a point stay in L1."""
        plan = self.plan
        with tir.loop(16, self.inner) as point:
            for first, vectors, count in plan.panels():
                with tir.loop(count) as panel:
                    vector = T.Bind(first + panel * vectors)
                    self._point(point, vector, vectors, plan.filters, vector * plan.lanes)

    def _point(self, point: Any, vector: Any, vectors: int, pitch: int, place: Any) -> None:
        """All tiles of one point by one tile of filters, to ``place`` in rows of ``pitch`` sums."""
        plan = self.plan
        blocks = -(-plan.tiles // plan.block)
        small, larger = divmod(plan.tiles, blocks)
        for size, times, base in ((small + 1, larger, 0), (small, blocks - larger, larger * (small + 1))):
            if times:
                with tir.loop(times) as number:
                    first = T.Bind(base + number * size)
                    target = T.Bind((point * plan.tiles + first) * pitch + place)
                    self._micro(point, vector, vectors, size, first, target, pitch)

    def _micro(
        self, point: Any, vector: Any, vectors: int, tiles: int, first: Any, target: Any, pitch: int
    ) -> None:
        plan, lanes = self.plan, self.plan.lanes
        slots = [[tir.vector((i * vectors + j) * lanes, lanes) for j in range(vectors)] for i in range(tiles)]
        sums = registers(tiles * vectors * lanes)
        for row in slots:
            for slot in row:
                tir.store(sums, const(0, lanes=lanes), slot)
        data = T.Bind((point * plan.tiles + first) * (2 * plan.units))
        weights = T.Bind((point * plan.filters + vector * lanes) * (2 * plan.units))
        with tir.loop(plan.units) as step:
            base = weights + step * (2 * vectors * lanes)
            panel = [
                T.Bind(self.args.weights[tir.vector(base + 2 * j * lanes, 2 * lanes)]) for j in range(vectors)
            ]
            if plan.prefetch:
                size = 2 * vectors * lanes
                ahead = 2 * plan.units * plan.filters if plan.filters_outside else plan.units * size
                prefetch(self.args.weights, base + ahead, size)
            for i in range(tiles):
                at = data + (i * plan.units + step) * 2
                value = T.Bind(WORDS.unit_at(self.transformed, at, lanes))
                for j in range(vectors):
                    tir.store(sums, WORDS.add(sums[slots[i][j]], value, panel[j], plan.bits), slots[i][j])
        for i in range(tiles):
            for j in range(vectors):
                at = target + i * pitch + j * lanes
                tir.store(self.sums, sums[slots[i][j]], tir.vector(at, lanes))

    def _backward(self, image: Any, row: Any, column: Any) -> None:
        """Every tile's 16 sums to 2x2 results, by two vectors of filters where there are two."""
        plan, lanes = self.plan, self.plan.lanes
        whole, rest = divmod(plan.filters // lanes, 2)
        wide = 2 * lanes
        with tir.loop(whole, self.inner) as number:
            filters = T.Bind(number * wide)
            self._results(image, row, column, filters, wide, plan.filters, filters)
        if rest:
            filters = tir.index(whole * wide)
            self._results(image, row, column, filters, lanes, plan.filters, filters)

    def _results(
        self, image: Any, row: Any, column: Any, filters: Any, wide: int, pitch: int, place: Any
    ) -> None:
        """Results of ``wide`` filters, whose sums are at ``place`` in rows of ``pitch``."""
        plan, conv, lanes = self.plan, self.conv, self.plan.lanes
        halves = range(0, wide, lanes)
        requantize = Requantizer(self.args, filters, lanes, plan.requant, len(halves), scaling)
        biases = [T.Bind(self.args.bias[tir.vector(filters + half, lanes)]) for half in halves]

        def tile(number: Any, y: Any, x: Any) -> None:
            results = []
            for half in halves:
                start = T.Bind(number * pitch + place + half)

                def load(point: int, start: Any = start) -> Any:
                    at = start + point * (plan.tiles * pitch)
                    return T.Bind(self.sums[tir.vector(at, lanes)])

                lines = [[load(4 * i + j) for j in range(4)] for i in range(4)]
                results.append([T.Bind(value) for value in _transform(BACKWARD, lines)])
            top, left = T.Bind((row + y) * 2), T.Bind((column + x) * 2)
            for cell, parts in enumerate(zip(*results, strict=True)):
                i, j = divmod(cell, 2)
                quarter = const(2, lanes=lanes)
                totals = [
                    tirx.shift_right(part, quarter) + bias for part, bias in zip(parts, biases, strict=True)
                ]
                inside = [top + 1 < conv.out_h] * (i == 1 and conv.out_h % 2)
                inside += [left + 1 < conv.out_w] * (j == 1 and conv.out_w % 2)
                with tir.when(tirx.all(*inside) if inside else None):
                    result = T.Bind(requantize(*totals))
                    pixel = (image * conv.out_h + top + i) * conv.out_w + left + j
                    at = T.Bind(pixel * conv.out_c + filters)
                    store_filters(self.args.out, result, at, filters, conv.out_c, plan.filters, wide)

        self._tiles(tile)


def _transform(matrix: tuple[tuple[int, ...], ...], lines: list[list[Any]]) -> list[Any]:
    """The matrix applied to the columns and to the rows of 4x4 vectors; row by row."""
    half = [[_sum(row, [line[j] for line in lines]) for j in range(4)] for row in matrix]
    return [_sum(row, line) for line in half for row in matrix]


def _sum(signs: tuple[int, ...], values: list[Any]) -> Any:
    """The sum of those with sign 1 less those with sign -1."""
    total: Any = None
    for wanted in (1, -1):
        for sign, value in zip(signs, values, strict=True):
            if sign == wanted:
                total = value if total is None else total + value if sign > 0 else total - value
    return T.Bind(total)
