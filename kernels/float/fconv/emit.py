"""The generated code of the filter-vectorised convolution: loop nest and micro-kernel."""

from __future__ import annotations

from collections.abc import Callable

from kernels.arithmetic import even
from kernels.emit import code_shape, tir
from kernels.emit.shares import share
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Index, Vector
from kernels.emit.vectors import load_part
from kernels.float.fconv.plan import FILTERS, WEIGHT_STATIONARY, WINDOWS, Plan
from kernels.float.fconv.sums import DirectSums, TurnedSums
from kernels.float.plan import Arguments


def emit(plan: Plan, args: Arguments) -> None:
    """The loop nest around the micro-kernel, and the turn to NCHW."""
    with code_shape.linked():
        Nest(plan, args).emit()


class Nest:
    """Emits the body of one function."""

    def __init__(self, plan: Plan, args: Arguments) -> None:
        self.plan, self.args, self.threads, self.source = plan, args, plan.threads, plan.source
        self.full_tiles = plan.conv.out_c // plan.filters
        self.odd_vectors = plan.vector_count - self.full_tiles * plan.vectors
        self.full_blocks, self.odd_block = divmod(plan.conv.windows, plan.block)
        self.image: Index = 0

    def emit(self) -> None:
        """Emit everything: the padded copy of the input, then all blocks, image by image."""
        plan, args, threads = self.plan, self.args, self.threads
        copied = self.source.copied
        self.data = tir.scratch(self.source.elements) if copied else args.data
        self.sums = TurnedSums(plan, args) if plan.turned else DirectSums(plan, args)
        with tir.loop(plan.conv.n) as self.image:
            if copied:
                self.source.emit_copy(plan.lanes, args.data, self.data, self.image, threads)
            with tir.loop(threads, threads) as self.chunk:
                self._chunk()

    def _chunk(self) -> None:
        """One thread's share of the image: of the filter tiles, or of the window blocks."""
        plan, threads = self.plan, self.threads
        filters, windows = (threads if plan.split == kind else 1 for kind in (FILTERS, WINDOWS))
        self.tiles = share(self.full_tiles, self.odd_vectors > 0, self.chunk, filters)
        blocks = share(self.full_blocks, self.odd_block > 0, self.chunk, windows)
        with tir.loop(blocks.stop - blocks.first) as b:
            self._block((blocks.first + b) * plan.block, plan.block)
        if self.odd_block:
            with tir.when(blocks.last):
                self._block(self.full_blocks * plan.block, self.odd_block)

    def _block(self, start: Index, count: int) -> None:
        """All of a thread's filters over ``count`` windows from ``start``."""
        plan = self.plan

        def finish(tile: Index, vectors: int) -> None:
            self.sums.finish(self.chunk, self.image, tile, vectors, start, count)

        if plan.knobs.order == WEIGHT_STATIONARY:

            def whole(tile: Index, vectors: int) -> None:
                with tir.loop(plan.channel_sets) as channel_set:
                    for first, size, tiles in self._window_tiles(count):
                        with tir.loop(tiles) as t:
                            self._micro(channel_set, tile, vectors, start, first + t * size, size)
                finish(tile, vectors)

            self._each_filter_tile(whole)
            return
        with tir.loop(plan.channel_sets) as channel_set:
            for first, size, tiles in self._window_tiles(count):
                with tir.loop(tiles) as t:
                    at = T.Bind(tir.index(first + t * size))

                    def tile_of(tile: Index, vectors: int, at: Index = at, size: int = size) -> None:
                        self._micro(channel_set, tile, vectors, start, at, size)

                    self._each_filter_tile(tile_of)
        self._each_filter_tile(finish)

    def _window_tiles(self, count: int) -> list[tuple[int, int, int]]:
        """(first window, windows a tile, tiles) of the runs of equal tiles in a block."""
        runs, first = [], 0
        for size, tiles in even(count, self.plan.tile_windows):
            runs.append((first, size, tiles))
            first += size * tiles
        return runs

    def _each_filter_tile(self, body: Callable[[Index, int], None]) -> None:
        """``body(tile, vectors)`` for a thread's full tiles, then for the narrower last one."""
        with tir.loop(self.tiles.stop - self.tiles.first) as k:
            body(self.tiles.first + k, self.plan.vectors)
        if self.odd_vectors:
            with tir.when(self.tiles.last):
                body(self.full_tiles, self.odd_vectors)

    def _micro(
        self, channel_set: Index, tile: Index, vectors: int, start: Index, at: Index, size: int
    ) -> None:
        """Outer products of ``size`` windows and ``vectors`` vectors of filters over one channel set."""
        plan, args, lanes, source = self.plan, self.args, self.plan.lanes, self.source
        conv, sets = plan.conv, plan.channel_sets
        sums = tir.registers(size * vectors * lanes)
        block = [(i, j) for i in range(size) for j in range(vectors)]
        place = self.sums.place(self.chunk, self.image, tile, start, at)

        def register(i: int, j: int) -> Vector:
            return tir.vector((i * vectors + j) * lanes, lanes)

        def start_sums() -> None:
            for j in range(vectors):
                bias = T.Bind(self._bias(tile, j))
                for i in range(size):
                    tir.store(sums, bias, register(i, j))

        def load_sums() -> None:
            for i, j in block:
                tir.store(sums, self.sums.load(place, i, j, tile), register(i, j))

        def store_sums(finished: bool) -> None:
            for i, j in block:
                self.sums.store(sums[register(i, j)], place, i, j, tile, finished)

        if plan.fetches_out:
            self.sums.prefetch(place, size, vectors)
        tir.choose(channel_set == 0 if sets > 1 else None, start_sums, load_sums)
        channels = plan.knobs.channels
        if conv.in_c % channels:
            channels = tir.least(channels, conv.in_c - channel_set * channels)
        weights = T.Bind(
            tir.index(
                channel_set * (plan.knobs.channels * conv.taps * plan.vector_count * lanes)
                + tile * (channels * conv.taps * plan.filters)
            )
        )
        image = 0 if source.copied else self.image * source.elements
        offsets = [T.Bind(tir.index(image + source.window(start + at + i))) for i in range(size)]

        def multiply(step: Index, weight: Index) -> None:
            """Every window's element ``step`` behind its start by a vector of each filter."""
            for i in range(size):
                value = tir.splat(self.data[step + offsets[i]], lanes)
                for j in range(vectors):
                    filters = args.weights[tir.vector(weight + j * lanes, lanes)]
                    tir.store(sums, sums[register(i, j)] + value * filters, register(i, j))

        def multiply_lanes(step: Index, weight: Index) -> None:
            """The same for as many elements from ``step`` on as a vector has, which is one load a window."""
            loaded = [T.Bind(self.data[tir.vector(step + offset, lanes)]) for offset in offsets]
            for lane in range(lanes):
                for i in range(size):
                    value = tirx.Shuffle([loaded[i]], [tir.index(lane)] * lanes)
                    for j in range(vectors):
                        filters = args.weights[tir.vector(weight + (lane * vectors + j) * lanes, lanes)]
                        tir.store(sums, sums[register(i, j)] + value * filters, register(i, j))

        first = source.channel(channel_set * plan.knobs.channels)
        pixel = source.run * source.pixels.column_step

        def prefetch(step: Index) -> None:
            """The lines of the next windows' elements ``step`` behind their starts."""
            for offset in offsets[:: max(1, plan.line // pixel)] if plan.fetches_windows else ():
                code_shape.prefetch(self.data, step + offset + size * pixel)

        if plan.by_lanes:
            self._runs(first, channels, weights, vectors, multiply_lanes, prefetch)
        elif source.run == 1:
            self._planes(first, channels, weights, size, vectors, multiply, prefetch)
        else:
            self._runs(first, channels, weights, vectors, multiply, prefetch)
        if plan.turned:
            store_sums(False)
        else:
            last = channel_set == sets - 1 if sets > 1 else None
            tir.choose(last, lambda: store_sums(True), lambda: store_sums(False))

    def _planes(
        self,
        first: Index,
        channels: Index,
        weights: Index,
        size: int,
        vectors: int,
        multiply: Callable[[Index, Index], None],
        prefetch: Callable[[Index], None],
    ) -> None:
        """Channel by channel, and in each the taps."""
        plan, conv, source = self.plan, self.plan.conv, self.source
        with tir.loop(channels) as c, tir.loop(conv.kh) as r:
            plane = first + c * source.plane + r * source.tap_row
            row = weights + (c * conv.kh + r) * (conv.kw * vectors * plan.lanes)

            prefetch(plane)

            def tap(s: Index) -> None:
                multiply(plane + s * source.tap, row + s * (vectors * plan.lanes))

            if size * vectors >= code_shape.SMALLEST_LOOP:
                with code_shape.kept_loop(conv.kw) as s:
                    tap(s)
            else:
                for s in range(conv.kw):
                    if s:
                        # Windows share elements, each at another tap: kept for it, they take registers.
                        code_shape.order()
                    tap(s)

    def _runs(
        self,
        first: Index,
        channels: Index,
        weights: Index,
        vectors: int,
        multiply: Callable[[Index, Index], None],
        prefetch: Callable[[Index], None],
    ) -> None:
        """Tap by tap, and in each the channels that lie side by side; whole rows of taps where these do."""
        plan, conv, source = self.plan, self.plan.conv, self.source
        blocks, run = (1, channels) if plan.one_run else (channels // source.run, source.run)
        taps, line = (1, run * conv.kw) if plan.rows_join else (conv.kw, run)
        pitch, kept = vectors * plan.lanes, plan.tile_windows * plan.vectors >= code_shape.SMALLEST_LOOP
        turn = line if kept and not plan.fetches_windows else plan.turn
        each = plan.lanes if plan.by_lanes else 1
        with tir.loop(blocks) as b, tir.loop(conv.kh) as r, tir.loop(taps) as s:
            start = first + b * source.plane + r * source.tap_row + s * source.tap
            row = weights + ((b * conv.kh + r) * taps + s) * (line * pitch)
            with tir.loop(1 if turn is line else line // turn) as t:
                prefetch(start + t * turn)
                if kept:
                    with code_shape.kept_loop(turn // each) as u:
                        at = t * turn + u * each
                        multiply(start + at, row + at * pitch)
                else:
                    for u in range(0, turn, each):
                        multiply(start + t * turn + u, row + (t * turn + u) * pitch)

    def _bias(self, tile: Index, j: int) -> Vector:
        """The start value of a vector of filters: its bias, or zero."""
        plan, lanes = self.plan, self.plan.lanes
        if self.args.bias is None:
            return tir.zeros(lanes)
        return load_part(self.args.bias, tile * plan.filters + j * lanes, plan.real(tile, j), lanes)
