"""The loop nest of the direct quantized convolution."""

from __future__ import annotations

from collections.abc import Callable

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.tir import const, convert, registers, scratch
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.band import emit_band
from kernels.int8.tir import QArguments, store_filters
from kernels.int8.x86.direct.plan import FILTERS, INPUT_STATIONARY, Plan
from kernels.int8.x86.instructions import add_pairs, add_products, prefetch


def emit(plan: Plan, args: QArguments) -> None:
    """Bands, groups, tiles of filters and blocks of windows around the micro-kernel."""
    Nest(plan, args).emit()


class Nest:
    """Emits one function's loops."""

    def __init__(self, plan: Plan, args: QArguments) -> None:
        self.plan, self.conv, self.args = plan, plan.conv, args
        self.band = plan.band
        self.finish = plan.finish(args)
        self.off: Buffer = None
        self.outer, self.inner = (1, plan.threads) if plan.knobs.split == FILTERS else (plan.threads, 1)

    def emit(self) -> None:
        """Bands of rows of every image; each with all filters."""
        bands = ceil_div(self.conv.out_h, self.plan.knobs.rows)
        with tir.loop(self.conv.n * bands, self.outer) as number:
            image, first = T.Bind(number // bands), T.Bind(number % bands * self.plan.knobs.rows)
            if bands * self.plan.knobs.rows != self.conv.out_h:
                # The last band ends with the last row and computes some rows again.
                first = T.Bind(tir.least(first, self.conv.out_h - self.plan.knobs.rows))
            source, start = self.args.data, (image * self.conv.in_h + first * self.conv.stride[0])
            start = T.Bind(start * self.band.pitch)
            if self.band.copied:
                source, start = scratch(self.band.elements, self.plan.way.data), tir.index(0)
                lanes = self.plan.bits // (16 if self.plan.way.data == "int16" else 8)
                emit_band(self.band, self.args.data, source, image, first, lanes)
            if self.plan.zero_apart:
                self.off = self._zeros(source, start)
            out = T.Bind((image * self.conv.out_h + first) * (self.conv.out_w * self.conv.out_c))
            with tir.loop(self.conv.groups) as group:
                self._group(source, T.Bind(start + group * (self.conv.in_c // self.conv.groups)), out, group)

    def _zeros(self, source: Buffer, start: Index) -> Buffer:
        """What the weights' zero point adds to the sums of each window of a matrix product: its share of
        the sum of the data."""
        plan, lanes, depth = self.plan, self.plan.lanes, self.conv.in_c
        size = 4 * lanes
        windows = plan.knobs.rows * self.conv.out_w
        off = scratch(windows, "int32")
        ones = [const(1, "int8", size), const(1, "int16", 2 * lanes)]
        with tir.loop(windows) as window:
            at = T.Bind(start + self.band.numbered(window))
            total, rest = registers(lanes, "int32"), registers(1, "int32")
            tir.store(total, const(0, lanes=lanes), tir.vector(0, lanes))
            tir.store(rest, const(0), 0)
            with tir.loop(depth // size) as turn:
                data = source[tir.vector(at + turn * size, size)]
                pairs = T.Bind(add_products(data, ones[0], plan.bits))
                more = total[tir.vector(0, lanes)] + add_pairs(pairs, ones[1], plan.bits)
                tir.store(total, more, tir.vector(0, lanes))
            with tir.loop(depth % size) as turn:
                value = convert(source[at + depth // size * size + turn], "int32", 1)
                tir.store(rest, rest[0] + value, 0)
            found = rest[0]
            for lane in range(lanes):
                found = found + total[lane]
            tir.store(off, found * const(plan.zero_apart), window)
        return off

    def _group(self, source: Buffer, start: Index, out: Index, group: Index) -> None:
        def block(windows: int, first: Index) -> None:
            self._tiles(
                lambda tile, width: self._micro(source, start, out, group, windows, first, tile, width)
            )

        if self.plan.knobs.order == INPUT_STATIONARY:
            self._windows(block)
            return
        self._tiles(
            lambda tile, width: self._windows(
                lambda windows, first: self._micro(source, start, out, group, windows, first, tile, width)
            )
        )

    def _windows(self, block: Callable[[int, Index], None]) -> None:
        """``block(windows, first)`` over the windows of a band, in blocks as even as can be."""
        tir.blocks(self.plan.knobs.rows * self.conv.out_w, self.plan.windows, block)

    def _tiles(self, tile: Callable[[Index, int], None]) -> None:
        """``tile(first vector, vectors)`` over the filters of a group."""
        for first, vectors, count in self.plan.filter_tiles():
            with tir.loop(count, self.inner if count > 1 else 1) as number:
                tile(T.Bind(first + number * vectors), vectors)

    def _micro(
        self,
        source: Buffer,
        start: Index,
        out: Index,
        group: Index,
        windows: int,
        first: Index,
        tile: Index,
        vectors: int,
    ) -> None:
        """``windows`` x ``vectors`` results: sums in registers over all runs, then requantized."""
        plan, lanes = self.plan, self.plan.lanes
        slots = [
            [tir.vector((i * vectors + j) * lanes, lanes) for j in range(vectors)] for i in range(windows)
        ]
        sums = registers(windows * vectors * lanes, "int32")
        filters = T.Bind(group * plan.filters + tile * lanes)
        packed = T.Bind((group * (plan.filters // lanes) + tile) * plan.packed_vector)
        for j in range(vectors):
            bias = self.args.start(filters + j * lanes, lanes)
            for i in range(windows):
                start_of = bias
                if self.off is not None:
                    start_of = bias - tir.splat(self.off[first + i], lanes)
                tir.store(sums, start_of, slots[i][j])
        numbers = [first + i for i in range(windows)]
        starts = [T.Bind(start + self.band.numbered(number)) for number in numbers]
        if plan.short:
            plan.short.emit(self.args.weights, packed, source, starts, sums, slots, plan.knobs.prefetch)
        else:
            self._runs(source, starts, packed, sums, slots)
        self._finish(sums, slots, out, group, numbers, filters, tile, vectors)

    def _runs(
        self, source: Buffer, starts: list[Index], packed: Index, sums: Buffer, slots: list[list[Vector]]
    ) -> None:
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
                if plan.knobs.prefetch:
                    prefetch(self.args.weights, base + plan.depth * size, size)
                panel = [
                    T.Bind(self.args.weights[tir.vector(base + j * lanes * unit, lanes * unit)])
                    for j in vectors
                ]
                for i, start in enumerate(at):
                    data = T.Bind(plan.unit_at(source, start + step * unit))
                    for j in vectors:
                        total = plan.way.add(sums[slots[i][j]], data, panel[j], plan.bits)
                        tir.store(sums, total, slots[i][j])

    def _finish(
        self,
        sums: Buffer,
        slots: list[list[Vector]],
        out: Index,
        group: Index,
        numbers: list[Index],
        filters: Index,
        tile: Index,
        vectors: int,
    ) -> None:
        """Requantize and store, two vectors of filters at a time where there are two, else four windows."""
        plan, conv = self.plan, self.conv
        of_group = conv.out_c // conv.groups
        for j in range(0, vectors, 2):
            together = min(2, vectors - j)
            begin, first = filters + j * plan.lanes, (tile + j) * plan.lanes

            def write(
                result: Vector, number: Index, lanes: int = together * plan.lanes, first: Index = first
            ) -> None:
                at = T.Bind(out + number * conv.out_c + group * of_group + first)
                store_filters(self.args.out, result, at, first, of_group, plan.filters, lanes)

            if together == 2:
                pair = self.finish.pair(begin)
                for i, number in enumerate(numbers):
                    write(pair([sums[slot] for slot in slots[i][j : j + 2]]), number)
                continue
            four = self.finish.four(begin)
            for at in range(0, len(numbers), 4):
                results = four([sums[slot[j]] for slot in slots[at : at + 4]])
                for result, number in zip(results, numbers[at : at + 4], strict=True):
                    write(result, number)
