"""What is done in the loops of a chain of float convolutions."""

from __future__ import annotations

from collections.abc import Callable

from kernels.chains.nest import FIRST, ChainNest, Place
from kernels.chains.slices import CHANNELS, COLUMNS, DEPTH, Blocked, lead, skipped
from kernels.emit import tir
from kernels.emit.tir import splat, store, vector
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Expr, Index, Vector
from kernels.emit.vectors import pieces
from kernels.float.chain.pair import Buffers
from kernels.float.chain.plan import CACHED, ChainPlan
from kernels.float.plan import clamped
from kernels.layout import NHWC
from kernels.workload.base import Conv2d


def emit(plan: ChainPlan, args: Buffers) -> None:
    """The whole function."""
    ChainNest(plan.slices, plan.threads, FloatWork(plan, args)).emit()


class FloatWork:
    """Copies, and the micro-kernels of both convolutions."""

    def __init__(self, plan: ChainPlan, args: Buffers) -> None:
        self.plan, self.args, self.lanes = plan, args, plan.lanes
        self.slices, self.parts = plan.slices, plan.workload.parts
        self.biases = (args.first_bias, args.second_bias)
        self.given = (args.first_filters, args.second_filters)

    def allocate(self) -> None:
        """The input's cache, in which the result is too, that between, and that of filters."""
        slices = self.slices
        self.source = tir.scratch(max(slices.source.elements, slices.result.elements))
        self.between = tir.scratch(slices.between.elements)
        self.cached = tir.scratch(slices.filters) if self.plan.knobs.filters == CACHED else None
        pad = self.parts[1].pad
        if pad[1] or pad[3]:
            with tir.loop(slices.between.elements // self.lanes) as turn:
                store(self.between, tir.zeros(self.lanes), vector(turn * self.lanes, self.lanes))

    def read(self, image: Index, row: Index, line: Index) -> None:
        """A row of the input, with zeros left and right."""
        one, cache = self.parts[0], self.slices.source
        at = T.Bind(cache.row(row))
        left, width = lead(one), one.in_w
        self._zeros(at, 0, left)
        self._zeros(at, left + width, cache.columns)
        if self.plan.layouts.data == NHWC:
            with tir.loop(width) as w:
                pixel = T.Bind(((image * one.in_h + line) * one.in_w + w) * one.in_c)
                place = T.Bind(at + cache.column(w + left))

                def copy(channel: Index, to: Index, lanes: int) -> None:
                    store(
                        self.source, self.args.data[vector(pixel + channel, lanes)], vector(place + to, lanes)
                    )

                self._each_channel(cache, one.in_c, copy)
            return
        with tir.loop(one.in_c) as c:
            plane = T.Bind(((image * one.in_c + c) * one.in_h + line) * one.in_w)
            place = T.Bind(at + cache.channel_block(c // CHANNELS) + c % CHANNELS)
            with tir.loop(width) as w:
                store(self.source, self.args.data[plane + w], place + cache.column(w + left))

    def blank(self, row: Index) -> None:
        """A row of zeros."""
        self._zeros(T.Bind(self.slices.source.row(row)), 0, self.slices.source.columns)

    def ready(self, stage: int, rows: Index) -> None:
        """Nothing follows."""

    def together(self, stage: int) -> int:
        """One block: it has several vectors."""
        return 1

    def _zeros(self, at: Index, begin: int, end: int) -> None:
        cache = self.slices.source
        if begin >= end:
            return
        with tir.loop(end - begin) as w:
            place = T.Bind(at + cache.column(w + begin))
            self._each_channel(
                cache,
                -(-cache.channels // CHANNELS) * CHANNELS,
                lambda _, to, lanes: store(self.source, tir.zeros(lanes), vector(place + to, lanes)),
            )

    def _each_channel(self, cache: Blocked, channels: int, one: Callable[[Index, Index, int], None]) -> None:
        """``one(channel, place, lanes)`` for the channels of a pixel of ``cache``, by vectors."""
        whole, rest = divmod(channels, CHANNELS)
        if whole:
            with tir.loop(whole) as block:
                for first in range(0, CHANNELS, self.lanes):
                    one(block * CHANNELS + first, cache.channel_block(block) + first, self.lanes)
        for first in range(0, rest, self.lanes):
            count = min(self.lanes, rest - first)
            for start, width in pieces(count):
                channel = first + start
                one(whole * CHANNELS + channel, cache.channel_block(whole) + channel, width)

    def filters(self, stage: int, block: Index, inner: Index) -> None:
        """Filters of 32 channels to the cache, where vectors of channels are whole."""
        if self.cached is None:
            return
        size, given = self.slices.filter_block(self.parts[stage]), self.given[stage]
        source, to = T.Bind(block * size), T.Bind(inner * size)
        if self.parts[stage].is_depthwise:
            with tir.loop(size // self.lanes) as turn:
                at = turn * self.lanes
                store(self.cached, given[vector(source + at, self.lanes)], vector(to + at, self.lanes))
            return
        with tir.loop(size // (CHANNELS * DEPTH)) as turn:
            begin, end = T.Bind(source + turn * (CHANNELS * DEPTH)), T.Bind(to + turn * (CHANNELS * DEPTH))
            with tir.loop(CHANNELS) as ki:
                for cii in range(DEPTH):
                    store(self.cached, given[begin + ki * DEPTH + cii], end + cii * CHANNELS + ki)

    def filters_at(self, stage: int, block: Index, inner: Index) -> Index:
        """In the cache, or where they were given."""
        where = block if self.cached is None else inner
        return T.Bind(tir.index(where * self.slices.filter_block(self.parts[stage])))

    def windows(self, stage: int, place: Place, count: int) -> None:
        """A row of windows: groups of them in registers, beside groups of vectors of channels."""
        part, most = self.parts[stage], self.plan.knobs.block[0]
        vectors = self._vectors(part, place.block)
        group = (
            min(self.plan.knobs.block[1], vectors) if isinstance(vectors, int) else self.plan.knobs.block[1]
        )
        turns = (vectors + group - 1) // group
        with tir.loop(turns) as turn:
            channel = T.Bind(turn * (group * self.lanes))
            for first in range(0, count, most):
                self._block(stage, place, first, min(most, count - first), channel, group)

    def _vectors(self, part: Conv2d, block: Index) -> Index:
        """Vectors of channels of a block that there are; the last block may have fewer."""
        if part.out_c % CHANNELS == 0:
            return CHANNELS // self.lanes
        if part.out_c < CHANNELS:
            return -(-part.out_c // self.lanes)
        left = (part.out_c - block * CHANNELS + self.lanes - 1) // self.lanes
        return T.Bind(tir.least(CHANNELS // self.lanes, left))

    def _block(self, stage: int, place: Place, first: int, count: int, channel: Index, group: int) -> None:
        """``count`` windows by ``group`` vectors of channels, from window ``first`` of 8 on."""
        part, lanes = self.parts[stage], self.lanes
        cache, source = self._source(stage)
        sums = tir.registers(count * group * lanes)

        def slot(i: int, j: int) -> Vector:
            return vector((i * group + j) * lanes, lanes)

        for j in range(group):
            bias = T.Bind(self.biases[stage][vector(place.block * CHANNELS + channel + j * lanes, lanes)])
            for i in range(count):
                store(sums, bias, slot(i, j))
        filters = self.given[stage] if self.cached is None else self.cached
        columns = T.Bind(tir.index(place.column * (part.stride[1] * cache.across)))
        with tir.loop(part.kh) as rh:
            row = T.Bind(columns + cache.row(place.source + rh * part.dilation[0]))
            for rw in range(part.kw):
                offsets = [
                    cache.column(skipped(part) + (first + i) * part.stride[1] + rw * part.dilation[1])
                    for i in range(count)
                ]
                tap = rh * part.kw + rw
                if part.is_depthwise:
                    begin = T.Bind(row + cache.channel_block(place.block) + channel)
                    at = T.Bind(place.filters + tap * CHANNELS + channel)
                    for j in range(group):
                        taps = T.Bind(filters[vector(at + j * lanes, lanes)])
                        for i, offset in enumerate(offsets):
                            value = source[vector(begin + (offset + j * lanes), lanes)]
                            store(sums, sums[slot(i, j)] + value * taps, slot(i, j))
                    continue

                def multiply(begin: Index, at: Index, offsets: list[int] = offsets) -> None:
                    loaded = [T.Bind(filters[vector(at + j * lanes, lanes)]) for j in range(group)]
                    for i, offset in enumerate(offsets):
                        value = splat(source[begin + offset], lanes)
                        for j in range(group):
                            store(sums, sums[slot(i, j)] + value * loaded[j], slot(i, j))

                self._depth(part, cache, row, T.Bind(place.filters + channel), tap, multiply)
        for i in range(count):
            for j in range(group):
                self._store(stage, place, first + i, channel + j * lanes, sums[slot(i, j)])

    def _depth(
        self,
        part: Conv2d,
        cache: Blocked,
        row: Index,
        filters: Index,
        tap: Index,
        multiply: Callable[[Index, Index], None],
    ) -> None:
        """``multiply(place, filter)`` for all channels of one tap."""
        whole, rest = divmod(part.in_c, CHANNELS)

        def block(co: Index, channels: int) -> None:
            begin = T.Bind(row + cache.channel_block(co))
            at = T.Bind(filters + (co * part.taps + tap) * (CHANNELS * CHANNELS))
            together = DEPTH if channels % DEPTH == 0 else 1
            with tir.loop(channels // together) as turn:
                for each in range(together):
                    ci = turn * together + each
                    multiply(begin + ci, at + ci * CHANNELS)

        if whole:
            with tir.loop(whole) as co:
                block(co, CHANNELS)
        if rest:
            block(whole, rest)

    def _source(self, stage: int) -> tuple[Blocked, Buffer]:
        if stage == FIRST:
            return self.slices.source, self.source
        return self.slices.between, self.between

    def _store(self, stage: int, place: Place, window: int, channel: Index, value: Vector) -> None:
        """A vector of results to the cache between, or to that of the result."""
        if stage == FIRST:
            cache = self.slices.between
            value = clamped(value, self.parts[0].epilogue, self.lanes)
            column = cache.column(lead(self.parts[1]) + window)
            at = cache.row(place.out) + place.column * cache.across + column
            at = at + cache.channel_block(place.block) + channel
            tir.store(self.between, value, vector(at, self.lanes))
            return
        cache = self.slices.result
        at = cache.row(place.out) + place.column * cache.across + cache.column(window)
        store(self.source, value, vector(at + cache.channel_block(place.inner) + channel, self.lanes))

    def blank_windows(self, place: Place, count: int) -> None:
        """Zeros between."""
        for window in range(count):
            for first in range(0, CHANNELS, self.lanes):
                cache, left = self.slices.between, lead(self.parts[1])
                at = cache.row(place.out) + place.column * cache.across + cache.column(left + window)
                at = at + cache.channel_block(place.block) + first
                store(self.between, tir.zeros(self.lanes), vector(at, self.lanes))

    def move_between(self, source: Index, row: Index) -> None:
        """All channels of a row; the rows do not overlap."""
        cache = self.slices.between
        one, other = T.Bind(cache.row(source)), T.Bind(cache.row(row))
        size = COLUMNS * CHANNELS
        with tir.loop(cache.down // cache.cell) as block, tir.loop(size // self.lanes) as turn:
            at = T.Bind(block * cache.cell + turn * self.lanes)
            store(self.between, self.between[vector(one + at, self.lanes)], vector(other + at, self.lanes))

    def write(self, image: Index, row: Index, line: Index, first: Index, blocks: Index) -> None:
        """A row of the result with residual and clamp."""
        two, cache = self.parts[1], self.slices.result
        at = T.Bind(cache.row(row))

        def finished(place: Index, to: Index, lanes: int) -> None:
            value = self.source[vector(place, lanes)]
            if self.args.residual is not None:
                value = value + self.args.residual[vector(to, lanes)]
            store(self.args.out, clamped(value, two.epilogue, lanes), vector(to, lanes))

        with tir.loop(blocks) as block:
            begin = T.Bind(tir.index((first + block) * CHANNELS))
            inner = T.Bind(at + cache.channel_block(block))
            if self.plan.layouts.out == NHWC:
                with tir.loop(two.out_w) as w:
                    pixel = T.Bind(((image * two.out_h + line) * two.out_w + w) * two.out_c + begin)
                    place = T.Bind(inner + cache.column(w))

                    def whole(place: Index = place, pixel: Index = pixel) -> None:
                        for start in range(0, CHANNELS, self.lanes):
                            finished(place + start, pixel + start, self.lanes)

                    def part(place: Index = place, pixel: Index = pixel) -> None:
                        rest = two.out_c % CHANNELS
                        for start in range(0, rest, self.lanes):
                            for more, width in pieces(min(self.lanes, rest - start)):
                                finished(place + start + more, pixel + start + more, width)

                    self._whole_or_part(two, begin, whole, part)
                return
            channels: Index = CHANNELS
            if two.out_c % CHANNELS:
                channels = tir.least(CHANNELS, two.out_c - begin)
            with tir.loop(channels) as c:
                plane = T.Bind(((image * two.out_c + begin + c) * two.out_h + line) * two.out_w)
                with tir.loop(two.out_w) as w:
                    finished(inner + c + cache.column(w), plane + w, 1)

    def _whole_or_part(
        self, part: Conv2d, begin: Index, whole: Callable[[], None], rest: Callable[[], None]
    ) -> None:
        """The last block may have fewer channels."""
        if part.out_c < CHANNELS:
            rest()
            return
        condition: Expr | None = None
        if part.out_c % CHANNELS:
            condition = begin + CHANNELS <= part.out_c
        tir.choose(condition, whole, rest)
