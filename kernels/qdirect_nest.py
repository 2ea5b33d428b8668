"""The loop nest of the direct quantized convolution. TVM objects are Any."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.kernel import Array
from kernels.qband import Band, emit_band
from kernels.qshort_sums import ShortSums
from kernels.qtir import QArguments, registers, scratch, store_filters
from kernels.qworkload import QConv2d
from kernels.qx86 import PARTS, WAYS, Multiply, narrow_bytes, prefetch, scaling, scaling_at
from kernels.requantize import Requantizer
from kernels.space import Config
from kernels.target import Target
from kernels.vectors import shuffle

BANDS, FILTERS = "bands", "filters"
"""What threads share out: bands of rows, or the tiles of filters of each band."""


@dataclass(frozen=True)
class Plan:
    """A config as numbers: ``windows`` x ``vectors`` of filters in registers, ``rows`` of output a band."""

    conv: QConv2d
    way: Multiply
    windows: int
    vectors: int
    rows: int
    order: str
    prefetch: bool
    split: str
    requant: str
    bits: int

    @classmethod
    def of(cls, conv: QConv2d, config: Config, target: Target) -> Plan:
        """Read a config."""
        windows, vectors = map(int, str(config["block"]).split("x"))
        return cls(
            conv=conv,
            way=WAYS[str(config["multiply"])],
            windows=windows,
            vectors=vectors,
            rows=config.int("rows"),
            order=str(config["order"]),
            prefetch=config.int("prefetch") > 0,
            split=str(dict(config.knobs).get("split", BANDS)),
            requant=str(config["requant"]),
            bits=target.vector_bits,
        )

    @property
    def lanes(self) -> int:
        """Filters in a vector."""
        return self.bits // 32

    @property
    def band(self) -> Band:
        """Where the windows lie."""
        return Band(self.conv, self.rows, self.way.data, self.way.offset(self.conv), self.way.unit)

    @property
    def filters(self) -> int:
        """Filters of a group, filled up to whole vectors."""
        return -(-self.conv.out_c // self.conv.groups // self.lanes) * self.lanes

    @property
    def depth(self) -> int:
        """Units in a filter."""
        down, across = self.band.runs
        return down * across * self.band.steps

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return self.conv.groups * self.filters // self.lanes * self.packed_vector

    @property
    def packed_vector(self) -> int:
        """Elements of the packed weights of one vector of filters."""
        return self.short.vector if self.short else self.lanes * self.depth * self.way.unit

    @property
    def short(self) -> ShortSums | None:
        """How sums are begun in int16, where they are."""
        parts = PARTS.get(self.way.name)
        return ShortSums(parts, self.depth, self.lanes) if parts else None

    def offsets(self) -> Array:
        """Where the data of each unit begin, from those of the window."""
        down, across = self.band.runs
        starts = [self.band.tap(row, column) for row in range(down) for column in range(across)]
        steps = np.arange(self.band.steps) * self.way.unit
        return (np.array(starts)[:, None] + steps).reshape(-1)

    def tiles(self) -> list[tuple[int, int, int]]:
        """(first vector, vectors of a tile, count) of a group: whole tiles, then what is left."""
        whole, rest = divmod(self.filters // self.lanes, self.vectors)
        return [(0, self.vectors, whole)] * (whole > 0) + [(whole * self.vectors, rest, 1)] * (rest > 0)


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments, threads: int) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.band = plan.band
        self.outer, self.inner = (1, threads) if plan.split == FILTERS else (threads, 1)

    def emit(self) -> None:
        """Bands of rows of every image; each with all filters."""
        bands = -(-self.conv.out_h // self.plan.rows)
        with tir.loop(self.conv.n * bands, self.outer) as number:
            image, first = T.Bind(number // bands), T.Bind(number % bands * self.plan.rows)
            if bands * self.plan.rows != self.conv.out_h:
                # The last band ends with the last row and computes some rows again.
                first = T.Bind(tir.least(first, self.conv.out_h - self.plan.rows))
            source, start = self.args.data, (image * self.conv.in_h + first * self.conv.stride[0])
            start = T.Bind(start * self.band.pitch)
            if self.band.copied:
                source, start = scratch(self.band.elements, self.plan.way.data), tir.index(0)
                lanes = self.plan.bits // (16 if self.plan.way.data == "int16" else 8)
                emit_band(self.band, self.args.data, source, image, first, lanes)
            out = T.Bind((image * self.conv.out_h + first) * (self.conv.out_w * self.conv.out_c))
            with tir.loop(self.conv.groups) as group:
                self._group(source, T.Bind(start + group * (self.conv.in_c // self.conv.groups)), out, group)

    def _group(self, source: Any, start: Any, out: Any, group: Any) -> None:
        def block(windows: int, first: Any) -> None:
            self._tiles(
                lambda tile, width: self._micro(source, start, out, group, windows, first, tile, width)
            )

        if self.plan.order == "is":
            self._windows(block)
            return
        self._tiles(
            lambda tile, width: self._windows(
                lambda windows, first: self._micro(source, start, out, group, windows, first, tile, width)
            )
        )

    def _windows(self, block: Callable[[int, Any], None]) -> None:
        """``block(windows, first)`` over the windows of a band, in blocks as even as can be."""
        total = self.plan.rows * self.conv.out_w
        blocks = -(-total // self.plan.windows)
        small, larger = divmod(total, blocks)
        for size, count, base in ((small + 1, larger, 0), (small, blocks - larger, larger * (small + 1))):
            if count:
                with tir.loop(count) as number:
                    block(size, T.Bind(base + number * size))

    def _tiles(self, tile: Callable[[Any, int], None]) -> None:
        """``tile(first vector, vectors)`` over the filters of a group."""
        for first, vectors, count in self.plan.tiles():
            with tir.loop(count, self.inner if count > 1 else 1) as number:
                tile(T.Bind(first + number * vectors), vectors)

    def _micro(
        self, source: Any, start: Any, out: Any, group: Any, windows: int, first: Any, tile: Any, vectors: int
    ) -> None:
        """``windows`` x ``vectors`` results: sums in registers over all runs, then requantized."""
        plan, lanes = self.plan, self.plan.lanes
        slots = [
            [tir.vector((i * vectors + j) * lanes, lanes) for j in range(vectors)] for i in range(windows)
        ]
        sums = registers(windows * vectors * lanes)
        filters = T.Bind(group * plan.filters + tile * lanes)
        packed = T.Bind((group * (plan.filters // lanes) + tile) * plan.packed_vector)
        for j in range(vectors):
            bias = T.Bind(self.args.bias[tir.vector(filters + j * lanes, lanes)])
            for i in range(windows):
                tir.store(sums, bias, slots[i][j])
        numbers = [first + i for i in range(windows)]
        starts = [T.Bind(start + self.band.numbered(number)) for number in numbers]
        if plan.short:
            plan.short.emit(self.args.weights, packed, source, starts, sums, slots, plan.prefetch)
        else:
            self._runs(source, starts, packed, sums, slots)
        self._finish(sums, slots, out, group, numbers, filters, tile, vectors)

    def _runs(self, source: Any, starts: list[Any], packed: Any, sums: Any, slots: list[list[Any]]) -> None:
        """Add the products of all units of all runs, one unit at a time."""
        plan, band, lanes, unit = self.plan, self.band, self.plan.lanes, self.plan.way.unit
        vectors = range(len(slots[0]))
        size = len(vectors) * lanes * unit
        down, across = band.runs
        with tir.loop(down) as row, tir.loop(across) as column:
            run = T.Bind(band.tap(row, column))
            weights = T.Bind(packed + (row * across + column) * (band.steps * size))
            at = [T.Bind(each + run) for each in starts]
            with tir.loop(band.steps) as step:
                base = weights + step * size
                if plan.prefetch:
                    prefetch(self.args.weights, base + plan.depth * size, size)
                panel = [
                    T.Bind(self.args.weights[tir.vector(base + j * lanes * unit, lanes * unit)])
                    for j in vectors
                ]
                for i, start in enumerate(at):
                    data = T.Bind(plan.way.unit_at(source, start + step * unit, lanes))
                    for j in vectors:
                        total = plan.way.add(sums[slots[i][j]], data, panel[j], plan.bits)
                        tir.store(sums, total, slots[i][j])

    def _finish(
        self,
        sums: Any,
        slots: list[list[Any]],
        out: Any,
        group: Any,
        numbers: list[Any],
        filters: Any,
        tile: Any,
        vectors: int,
    ) -> None:
        """Requantize and store, two vectors of filters at a time where there are two, else four windows."""
        plan, conv = self.plan, self.conv
        of_group = conv.out_c // conv.groups
        for j in range(0, vectors, 2):
            together = min(2, vectors - j)
            begin, first = filters + j * plan.lanes, (tile + j) * plan.lanes

            def write(
                result: Any, number: Any, lanes: int = together * plan.lanes, first: Any = first
            ) -> None:
                at = T.Bind(out + number * conv.out_c + group * of_group + first)
                store_filters(self.args.out, result, at, first, of_group, plan.filters, lanes)

            if together == 1 and conv.scale_length:
                self._four_windows([sums[slot[j]] for slot in slots], begin, numbers, write)
                continue
            requantize = Requantizer(self.args, begin, plan.lanes, plan.requant, together, scaling)
            for i, number in enumerate(numbers):
                write(T.Bind(requantize(*(sums[slot] for slot in slots[i][j : j + together]))), number)

    def _four_windows(
        self, sums: list[Any], filters: Any, numbers: list[Any], write: Callable[[Any, Any], None]
    ) -> None:
        """A vector of filters from number ``filters`` on: four windows make up one vector of bytes."""
        plan, lanes = self.plan, self.plan.lanes
        multiply = scaling_at(self.args, filters if self.conv.per_channel else None, plan.requant, lanes)
        # narrow_bytes takes four results of each window in turn.
        order = [
            4 * (4 * four + window) + i for window in range(4) for four in range(lanes // 4) for i in range(4)
        ]
        for at in range(0, len(numbers), 4):
            some = numbers[at : at + 4]
            scaled = [T.Bind(multiply(value)) for value in sums[at : at + 4]]
            scaled += [scaled[-1]] * (4 - len(some))
            ordered = T.Bind(shuffle([narrow_bytes(self.conv, scaled, plan.bits)], order))
            for window, number in enumerate(some):
                write(T.Bind(shuffle([ordered], range(window * lanes, (window + 1) * lanes))), number)
