"""SConv's generated code: the macro-kernel's loop nest, packing on demand, and the micro-kernel.

Sections 4.2 (figure 5), 5 and 6.1 of seed 003. Edge tiles: the last filter tile has fewer filters; the last
window tile has fewer vectors and is moved back so that it ends with the last window, which computes some
windows twice instead of reading or writing past the end.
"""

from __future__ import annotations

from collections.abc import Callable

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, tir
from kernels.emit.padding import emit_copy
from kernels.emit.shares import Share, share
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, Vector
from kernels.emit.vectors import shuffle
from kernels.float.plan import Arguments
from kernels.float.sconv import csa
from kernels.float.sconv.micro import VectorProducts
from kernels.float.sconv.plan import LONGEST_UNROLL, Plan


def emit(plan: Plan, args: Arguments) -> None:
    """The macro-kernel of section 4.2 around the micro-kernel of section 5."""
    with plan.products.linked():
        Nest(plan, args).emit()


class Nest:
    """Emits the body of one SConv function."""

    def __init__(self, plan: Plan, args: Arguments) -> None:
        self.plan, self.args, self.threads = plan, args, plan.threads
        self.layout = plan.layout
        self.image: Index = 0

    def emit(self) -> None:
        """Emit everything: the copy of the input, then all tiles, image by image."""
        plan, conv = self.plan, self.plan.conv
        if self.layout.copied:
            self.source = tir.scratch(self.layout.elements)
        else:
            self.source = self.args.data
        if plan.packed:
            self.pack_chunk = plan.slots * plan.depth * plan.width + plan.pack_slack
            self.packed = tir.scratch(self.threads * self.pack_chunk)
        if plan.tail and (plan.channel_sets > 1 or plan.tail_overhangs):
            self.partial = tir.scratch(conv.out_c * plan.tail_vectors * plan.lanes)
        if plan.sums_apart:
            rows = plan.filter_tiles * plan.filters
            self.sums = tir.scratch(rows * plan.full_tiles * plan.width)
        if conv.n == 1:
            self._image()
        else:
            with tir.loop(conv.n) as self.image:
                self._image()

    def _image(self) -> None:
        if self.layout.copied:
            emit_copy(self.layout, self.plan.lanes, self.args.data, self.source, self.image, self.threads)
        if self.threads == 1:
            self._chunk(0)
        else:
            with tir.loop(self.threads, self.threads) as chunk:
                self._chunk(chunk)
        if self.plan.tail and self.plan.tail_overhangs:
            self._finish_overhang()

    def _chunk(self, chunk: Index) -> None:
        """One thread's share of the image."""
        plan = self.plan
        self.chunk = chunk
        by_windows, by_filters = plan.parts
        row, column = (chunk, 0) if by_filters == 1 else (chunk // by_filters, chunk % by_filters)
        tiles = share(plan.full_tiles, plan.tail > 0, row, by_windows)
        self.filters = share(plan.full_filters, plan.odd_filters > 0, column, by_filters)

        def channel_set(number: Index) -> None:
            if plan.full_tiles:
                order = (
                    self._input_stationary
                    if plan.knobs.order == csa.INPUT_STATIONARY
                    else self._weight_stationary
                )
                order(number, tiles)
            if plan.tail:
                with tir.when(tiles.last):
                    self._tail(number)

        if plan.channel_sets == 1:
            channel_set(0)
        else:
            with tir.loop(plan.channel_sets) as number:
                channel_set(number)

    def _input_stationary(self, channel_set: Index, tiles: Share) -> None:
        """Sets of k3 IN tiles, sets of k2 FS tiles, IN tiles (packed for the first FS set), FS tiles."""
        plan, filters = self.plan, self.filters
        k2, k3 = plan.k2, plan.k3
        tile_sets, filter_sets = _sets(tiles, k3), max(1, ceil_div(plan.filter_share, k2))

        def input_tile(tile_set: Index, filter_set: Index, t: Index) -> None:
            start = T.Bind((tiles.first + tile_set * k3 + t) * plan.width)
            ahead = plan.packed_ahead
            slot = t if filter_sets > 1 else t % ahead
            if plan.packed:
                needed = [filter_set == 0] * (filter_sets > 1) + [t % ahead == 0] * (ahead > 1)
                with tir.when(tirx.all(*needed) if needed else None):
                    count = tir.least(ahead, _in_set(tiles, tile_set, k3) - t)
                    self._pack(channel_set, slot, start, plan.vectors, count)

            def filter_tile(tile: Index, size: int) -> None:
                self._micro(channel_set, slot, start, plan.vectors, tile, size)

            with tir.loop(_in_set(filters, filter_set, k2)) as k:
                filter_tile(filters.first + filter_set * k2 + k, plan.filters)
            self._odd(filter_set == filter_sets - 1, filter_tile)

        with (
            tir.loop(tile_sets) as tile_set,
            tir.loop(filter_sets) as filter_set,
            tir.loop(_in_set(tiles, tile_set, k3)) as t,
        ):
            input_tile(tile_set, filter_set, t)

    def _weight_stationary(self, channel_set: Index, tiles: Share) -> None:
        """Sets of k3 FS tiles, sets of k2 IN tiles (packed together), FS tiles, IN tiles."""
        plan, filters = self.plan, self.filters
        k2, k3 = plan.k2, plan.k3
        tile_sets, filter_sets = _sets(tiles, k2), max(1, ceil_div(plan.filter_share, k3))
        with tir.loop(filter_sets) as filter_set, tir.loop(tile_sets) as tile_set:
            count = T.Bind(tir.index(_in_set(tiles, tile_set, k2)))

            def start_of(slot: Index) -> Index:
                return T.Bind((tiles.first + tile_set * k2 + slot) * plan.width)

            def filter_tile(tile: Index, size: int) -> None:
                with tir.loop(count) as slot:
                    self._micro(channel_set, slot, start_of(slot), plan.vectors, tile, size)

            if plan.packed:
                ahead = plan.packed_ahead
                with tir.loop((count + (ahead - 1)) // ahead) as part:
                    slot = T.Bind(part * ahead)
                    together = tir.least(ahead, count - slot)
                    self._pack(channel_set, slot, start_of(slot), plan.vectors, together)
            with tir.loop(_in_set(filters, filter_set, k3)) as k:
                filter_tile(filters.first + filter_set * k3 + k, plan.filters)
            self._odd(filter_set == filter_sets - 1, filter_tile)

    def _tail(self, channel_set: Index) -> None:
        """The last, narrower window tile with all of a thread's filters."""
        plan, filters = self.plan, self.filters
        if plan.packed:
            self._pack(channel_set, 0, plan.tail_start, plan.tail_vectors)

        def filter_tile(tile: Index, size: int) -> None:
            self._micro(channel_set, 0, plan.tail_start, plan.tail_vectors, tile, size, tail=True)

        with tir.loop(_in_set(filters, 0, plan.filter_tiles)) as k:
            filter_tile(filters.first + k, plan.filters)
        self._odd(tirx.const(True), filter_tile)

    def _odd(self, in_last_set: Expr, filter_tile: Callable[[Index, int], None]) -> None:
        """The last, smaller filter tile: once, after the last set, by the thread that has it."""
        plan = self.plan
        if not plan.odd_filters:
            return
        if self.filters.last is not None:
            in_last_set = tirx.all(in_last_set, self.filters.last)
        with tir.when(in_last_set):
            filter_tile(plan.full_filters, plan.odd_filters)

    # ---- Packing (section 6.1)

    def _pack(self, channel_set: Index, slot: Index, start: Index, vectors: int, count: Index = 1) -> None:
        """Expand the windows from ``start`` into slot ``slot``: channel, tap, window.

        ``count`` tiles side by side go to this slot and those behind it, where the plan packs ahead.
        """
        plan, conv = self.plan, self.plan.conv
        width = vectors * plan.lanes
        image = 0 if self.layout.copied else self.image * conv.in_c
        first = T.Bind(tir.index(image + channel_set * plan.knobs.channels))
        if plan.packed_ahead == 1:
            moves, base = self._moves(start, vectors), T.Bind(self._slot(slot))
        with tir.loop(plan.set_channels(channel_set)) as c:
            plane = (first + c) * self.layout.channel_pitch
            if plan.packed_ahead > 1:
                with tir.loop(count) as tile:
                    moves = self._moves(start + tile * width, vectors)
                    self._pack_row(moves, plane, self._slot(slot + tile) + c * width, width)
            else:
                with tir.loop(conv.kh) as r:
                    target = base + (c * plan.conv.taps + r * conv.kw) * width
                    self._pack_row(moves, plane + r * self.layout.tap_pitch, target, width)

    def _pack_row(
        self, moves: list[tuple[Index, Index, int]], source: Index, target: Index, width: int
    ) -> None:
        """Expand a row of the filter's taps; with shifts (section 6.2) two vectors are loaded for all."""
        plan = self.plan
        if plan.shifted:
            pairs = [self._pair(source + window) for _, window, _ in moves]
        for s in range(plan.conv.kw):
            for number, (at, window, count) in enumerate(moves):
                place = target + s * width + at
                if plan.shifted:
                    tap = self.layout.tap(s)
                    value = shuffle(pairs[number], range(tap, tap + plan.lanes))
                    tir.store(self.packed, value, tir.vector(place, plan.lanes))
                else:
                    here = source + self.layout.tap(s) + window
                    plan.products.copy(self.source, here, self.packed, place, count * plan.lanes)

    def _pair(self, start: Index) -> list[Vector]:
        """Two vectors side by side."""
        lanes = self.plan.lanes
        return [T.Bind(self.source[tir.vector(start + first, lanes)]) for first in (0, lanes)]

    def _moves(self, start: Index, vectors: int) -> list[tuple[Index, Index, int]]:
        """(position in the packed row, offset in the source plane, vectors) to copy for every tap.

        When a tile's vectors cross rows of the output, each row's part is copied in whole vectors, in order:
        what a part writes past its end is overwritten by the next part, or by the next tap.
        """
        plan, width = self.plan, self.plan.conv.out_w
        if plan.straight:
            count = plan.moved_together(vectors)
            offsets = self._offsets(start, vectors)
            return [(q * plan.lanes, offsets[q], count) for q in range(0, vectors, count)]
        size = vectors * plan.lanes
        row, column = T.Bind(tir.index(start) // width), T.Bind(tir.index(start) % width)
        parts = 1 + ceil_div(size - 1, width)
        moves = []
        for part in range(parts):
            at = 0 if part == 0 else T.Bind(tirx.Min(part * width - column, size))
            source_row = tirx.Min(row + part, plan.conv.out_h - 1)
            source = T.Bind(source_row * self.layout.row_pitch + (column if part == 0 else 0))
            whole, together = ceil_div(min(width, size), plan.lanes), plan.moved_together(vectors)
            for q in range(0, whole, together):
                count = min(together, whole - q)
                moves.append((at + q * plan.lanes, source + q * plan.lanes, count))
        return moves

    def _offsets(self, start: Index, vectors: int) -> list[Index]:
        """Offset in the source plane of each vector of windows; each is contiguous there."""
        starts = [start + q * self.plan.lanes for q in range(vectors)]
        return [T.Bind(tir.index(self.layout.window(at))) for at in starts]

    def _slot(self, slot: Index) -> Index:
        return tir.index(self.chunk * self.pack_chunk + slot * (self.plan.depth * self.plan.width))

    # ---- Micro-kernel (section 5)

    def _micro(
        self,
        channel_set: Index,
        slot: Index,
        start: Index,
        vectors: int,
        tile: Index,
        filters: int,
        tail: bool = False,
    ) -> None:
        """Outer products of ``filters`` filters and ``vectors`` vectors of windows over one channel set."""
        plan, args, lanes = self.plan, self.args, self.plan.lanes
        sets = plan.channel_sets
        block = [(i, j) for i in range(filters) for j in range(vectors)]
        products = plan.products(args.weights, filters, vectors, lanes)
        sums, register = products.sums, products.slot

        first_filter = tile * plan.filters
        windows = plan.conv.windows
        out = (self.image * plan.conv.out_c + first_filter) * windows + start

        def home(i: int, j: int) -> tuple[Buffer, Index]:
            """Where sums wait for the next channel set."""
            if tail:
                at = (first_filter + i) * (vectors * lanes) + j * lanes
                return self.partial, at
            return args.out, out + i * windows + j * lanes

        apart = plan.sums_apart and not tail
        # In the order of the inner loop; of the last, smaller filter tile whole accumulators wait as well.
        if plan.knobs.order == csa.INPUT_STATIONARY:
            waiting = start * (plan.filter_tiles * plan.filters) + first_filter * plan.width
        else:
            waiting = first_filter * plan.full_tiles * plan.width + start * products.rows

        def start_sums() -> None:
            for i, j in block:
                value = tir.number(0.0) if args.bias is None else args.bias[first_filter + i]
                tir.store(sums, tir.splat(value, lanes), register(i, j))
            products.begin()

        def load_sums() -> None:
            if apart:
                products.resume(self.sums, waiting)
                return
            for i, j in block:
                buffer, at = home(i, j)
                tir.store(sums, buffer[tir.vector(at, lanes)], register(i, j))
            products.begin()

        def keep_sums() -> None:
            if apart:
                products.keep(self.sums, waiting)
                return
            products.end()
            for i, j in block:
                buffer, at = home(i, j)
                tir.store(buffer, sums[register(i, j)], tir.vector(at, lanes))

        def finish() -> None:
            products.end()
            for i, j in block:
                args.store_out(sums[register(i, j)], out + i * windows + j * lanes, lanes)

        if "results" in plan.ahead and not tail:
            ahead = plan.filters * windows if plan.knobs.order == csa.INPUT_STATIONARY else plan.width
            for i in range(filters):
                for line in range(0, plan.width, plan.line):
                    code_shape.prefetch(args.out, out + ahead + i * windows + line)
        tir.choose(channel_set == 0 if sets > 1 else None, start_sums, load_sums)
        channels = plan.set_channels(channel_set)
        weights = T.Bind(
            tir.index(
                channel_set * (plan.filter_tiles * plan.filters * plan.depth)
                + tile * (channels * plan.conv.taps * plan.filters)
            )
        )
        if plan.packed:
            base = T.Bind(self._slot(slot))
            with tir.loop(channels * plan.conv.taps) as t:
                row = base + t * (vectors * lanes)
                starts = [row + j * lanes for j in range(vectors)]
                products.add(weights + t * plan.filters, self.packed, starts, together=True)
        else:
            self._in_place(channel_set, channels, weights, self._offsets(start, vectors), products)
        tir.choose(
            channel_set == sets - 1 if sets > 1 else None,
            keep_sums if tail and plan.tail_overhangs else finish,
            keep_sums,
        )

    def _in_place(
        self,
        channel_set: Index,
        channels: Index,
        weights: Index,
        offsets: list[Index],
        products: VectorProducts,
    ) -> None:
        """The steps over windows that are read where they are."""
        plan, conv, layout = self.plan, self.plan.conv, self.layout

        def taps(c: Index, r: Index) -> None:
            plane = (channel_set * plan.knobs.channels + c) * layout.channel_pitch + r * layout.tap_pitch
            if "windows" in plan.ahead:
                for ahead in range(plan.width, 2 * plan.width, plan.line):
                    code_shape.prefetch(self.source, plane + offsets[0] + ahead)
            for s in range(conv.kw):
                products.add(
                    weights + (c * plan.conv.taps + r * conv.kw + s) * plan.filters,
                    self.source,
                    [plane + layout.tap(s) + at for at in offsets],
                    together=False,
                )

        if not layout.copied:
            image = self.image * (conv.in_c * layout.channel_pitch)
            offsets = [image + at for at in offsets]
        with tir.loop(channels) as c:
            if plan.unrolls_rows:
                for r in range(conv.kh):
                    taps(c, r)
            else:
                rows = tir.loop if plan.conv.taps > LONGEST_UNROLL else code_shape.kept_loop
                with rows(conv.kh) as r:
                    taps(c, r)

    def _finish_overhang(self) -> None:
        """Copy the tail's sums, of which only the first windows are real, to the output."""
        plan, conv = self.plan, self.plan.conv
        with tir.loop(conv.out_c) as k, tir.loop(plan.tail) as w:
            value = self.partial[k * (plan.tail_vectors * plan.lanes) + w]
            self.args.store_out(value, (self.image * conv.out_c + k) * plan.conv.windows + w, 1)


def _sets(tiles: Share, size: int) -> Index:
    """How many sets of ``size`` hold the tiles of a share."""
    count = tiles.stop - tiles.first
    return ceil_div(count, size) if isinstance(count, int) else (count + (size - 1)) // size


def _in_set(tiles: Share, number: Index, size: int) -> Index:
    """How many tiles of a share its set ``number`` has."""
    return tir.least(size, tiles.stop - tiles.first - number * size)
