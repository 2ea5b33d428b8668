"""The generated code of the filter-vectorised convolution: loop nest, micro-kernel, turn to NCHW."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from kernels import code_shape, tir
from kernels.fconv_plan import FilterPlan, spread
from kernels.padding import emit_copy
from kernels.vectors import load_part, split, transpose


class FilterNest:
    """Emits the body of one function."""

    def __init__(self, plan: FilterPlan, args: tir.Arguments, threads: int) -> None:
        self.plan, self.args, self.threads, self.layout = plan, args, threads, plan.layout
        self.full_tiles = plan.conv.out_c // plan.filters
        self.odd_vectors = plan.vector_count - self.full_tiles * plan.vectors
        self.full_blocks, self.odd_block = divmod(plan.windows, plan.block)
        # Threads share out the filter tiles when there are enough, else the window blocks.
        self.by_filters = self.full_tiles >= threads
        self.slots = 1 if plan.order == "ws" else plan.filter_tiles
        # Turning the last windows reads whole vectors of them.
        self.slot_size = (plan.block + plan.lanes) * plan.filters
        self.image: Any = 0

    def emit(self) -> None:
        """Emit everything: the padded copy of the input, then all blocks, image by image."""
        conv = self.plan.conv
        self.source = tir.scratch(self.layout.elements) if self.layout.copied else self.args.data
        self.sums = tir.scratch(self.threads * self.slots * self.slot_size)
        with tir.loop(conv.n) as self.image:
            if self.layout.copied:
                emit_copy(self.layout, self.plan.lanes, self.args.data, self.source, self.image, self.threads)
            with tir.loop(self.threads, self.threads) as self.chunk:
                self._chunk()

    def _chunk(self) -> None:
        """One thread's share of the image."""
        plan, threads = self.plan, self.threads
        blocks: tuple[Any, Any] = (0, self.full_blocks)
        self.tiles: tuple[Any, Any] = (0, self.full_tiles)
        self.is_last: Any = None
        if threads > 1:
            self.is_last = self.chunk == threads - 1
            if self.by_filters:
                self.tiles = self._share(self.full_tiles)
            else:
                blocks = self._share(self.full_blocks)
        with tir.loop(blocks[1]) as b:
            self._block((blocks[0] + b) * plan.block, plan.block)
        if self.odd_block:
            with tir.when(None if self.by_filters else self.is_last):
                self._block(self.full_blocks * plan.block, self.odd_block)

    def _share(self, count: int) -> tuple[Any, Any]:
        first = T.Bind(tir.index(count) * self.chunk // self.threads)
        return first, T.Bind(tir.index(count) * (self.chunk + 1) // self.threads - first)

    def _block(self, start: Any, count: int) -> None:
        """All of a thread's filters over ``count`` windows from ``start``."""
        plan = self.plan
        if plan.order == "ws":

            def whole(tile: Any, vectors: int) -> None:
                with tir.loop(plan.channel_sets) as channel_set:
                    for first, size, tiles in self._window_tiles(count):
                        with tir.loop(tiles) as t:
                            self._micro(channel_set, tile, 0, vectors, start, first + t * size, size)
                self._turn(tile, 0, vectors, start, count)

            self._each_filter_tile(whole)
            return
        with tir.loop(plan.channel_sets) as channel_set:
            for first, size, tiles in self._window_tiles(count):
                with tir.loop(tiles) as t:
                    at = T.Bind(tir.index(first + t * size))
                    self._each_filter_tile(
                        lambda tile, vectors, at=at, size=size: self._micro(
                            channel_set, tile, tile, vectors, start, at, size
                        )
                    )
        self._each_filter_tile(lambda tile, vectors: self._turn(tile, tile, vectors, start, count))

    def _window_tiles(self, count: int) -> list[tuple[int, int, int]]:
        """(first window, windows a tile, tiles) of the runs of equal tiles in a block."""
        runs, first = [], 0
        for size, tiles in spread(count, self.plan.tile_windows):
            runs.append((first, size, tiles))
            first += size * tiles
        return runs

    def _each_filter_tile(self, body: Any) -> None:
        """``body(tile, vectors)`` for a thread's full tiles, then for the narrower last one."""
        with tir.loop(self.tiles[1]) as k:
            body(self.tiles[0] + k, self.plan.vectors)
        if self.odd_vectors:
            with tir.when(self.is_last if self.by_filters else None):
                body(self.full_tiles, self.odd_vectors)

    def _micro(
        self, channel_set: Any, tile: Any, slot: Any, vectors: int, start: Any, at: Any, size: int
    ) -> None:
        """Outer products of ``size`` windows and ``vectors`` vectors of filters over one channel set."""
        plan, args, lanes, layout = self.plan, self.args, self.plan.lanes, self.layout
        conv = plan.conv
        sums = tir.registers(size * vectors * lanes)
        block = [(i, j) for i in range(size) for j in range(vectors)]
        home = T.Bind(tir.index(self._slot(slot) + at * plan.filters))

        def register(i: int, j: int) -> Any:
            return tir.vector((i * vectors + j) * lanes, lanes)

        def home_of(i: int, j: int) -> Any:
            return tir.vector(home + i * plan.filters + j * lanes, lanes)

        def start_sums() -> None:
            for j in range(vectors):
                bias = T.Bind(self._bias(tile, j, vectors))
                for i in range(size):
                    tir.store(sums, bias, register(i, j))

        def load_sums() -> None:
            for i, j in block:
                tir.store(sums, self.sums[home_of(i, j)], register(i, j))

        tir.choose(channel_set == 0 if plan.channel_sets > 1 else None, start_sums, load_sums)
        channels = plan.channels
        if conv.in_c % channels:
            channels = tir.least(channels, conv.in_c - channel_set * channels)
        weights = T.Bind(
            tir.index(
                channel_set * (plan.channels * plan.taps * plan.vector_count * lanes)
                + tile * (channels * plan.taps * plan.filters)
            )
        )
        image = 0 if layout.copied else self.image * (conv.in_c * layout.channel_pitch)
        offsets = [T.Bind(tir.index(image + layout.window(start + at + i))) for i in range(size)]
        with tir.loop(channels) as c, tir.loop(conv.kh) as r:
            plane = (channel_set * plan.channels + c) * layout.channel_pitch + r * layout.tap_pitch
            row = weights + (c * conv.kh + r) * (conv.kw * vectors * lanes)

            def tap(s: Any) -> None:
                for i in range(size):
                    value = tir.splat(self.source[plane + offsets[i] + s * conv.dilation[1]], lanes)
                    for j in range(vectors):
                        filters = args.weights[tir.vector(row + (s * vectors + j) * lanes, lanes)]
                        tir.store(sums, sums[register(i, j)] + value * filters, register(i, j))

            if size * vectors >= code_shape.SMALLEST_LOOP:
                with code_shape.kept_loop(conv.kw) as s:
                    tap(s)
            else:
                for s in range(conv.kw):
                    if s:
                        # Windows share elements, each at another tap: kept for it, they take registers.
                        code_shape.order()
                    tap(s)
        for i, j in block:
            tir.store(self.sums, sums[register(i, j)], home_of(i, j))

    def _bias(self, tile: Any, j: int, vectors: int) -> Any:
        """The start value of a vector of filters: its bias, or zero."""
        plan, lanes = self.plan, self.plan.lanes
        if self.args.bias is None:
            return tir.zeros(lanes)
        return load_part(self.args.bias, tile * plan.filters + j * lanes, self._real(tile, j), lanes)

    def _real(self, tile: Any, j: int) -> int:
        """How many filters of a tile's vector ``j`` there are: fewer than lanes in the very last."""
        plan, odd = self.plan, self.plan.conv.out_c % self.plan.lanes
        last = isinstance(tile, int) and tile * plan.vectors + j == plan.vector_count - 1
        return odd if odd and last else plan.lanes

    def _slot(self, slot: Any) -> Any:
        return (self.chunk * self.slots + slot) * self.slot_size

    def _turn(self, tile: Any, slot: Any, vectors: int, start: Any, count: int) -> None:
        """Turn a tile's sums from window-major to NCHW in registers, and store them finished."""
        plan, lanes = self.plan, self.plan.lanes
        whole, rest = divmod(count, lanes)

        def square(first: Any, width: int) -> None:
            """``lanes`` filters by ``width`` windows from ``first`` of the block."""
            for j in range(vectors):
                at = self._slot(slot) + first * plan.filters + j * lanes
                rows = [T.Bind(self.sums[tir.vector(at + i * plan.filters, lanes)]) for i in range(lanes)]
                for k, turned in enumerate(transpose(rows)[: self._real(tile, j)]):
                    channel = self.image * plan.conv.out_c + tile * plan.filters + j * lanes + k
                    out = channel * plan.windows + start + first
                    for offset, size, part in split(turned, width, lanes):
                        self.args.store_out(part, out + offset, size)

        if whole:
            with tir.loop(whole) as w:
                square(w * lanes, lanes)
        if rest:
            square(whole * lanes, rest)
