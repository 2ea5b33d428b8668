"""What is done in the loops of a chain of quantized convolutions.

Inside all bytes are unsigned: 128 is added to weights and to int8 data. So a product is one instruction of a
vector of filters and a word of data in a scalar register. What the 128 of the weights adds is 128 times the
sum of the data of a window; these sums are made once for each pixel, not for each filter.
"""

from __future__ import annotations

from kernels.chains.nest import FIRST, SECOND, ChainNest, Place
from kernels.chains.slices import CHANNELS, COLUMNS, DEPTH, Blocked, lead, skipped
from kernels.emit import code_shape, tir
from kernels.emit.tir import const, splat, store, vector
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Expr, Index, Vector
from kernels.int8.chain.pair import Buffers
from kernels.int8.chain.plan import MIDDLE, PIXEL, TOGETHER, QChainPlan
from kernels.int8.hvx import instructions as hvx
from kernels.int8.hvx.instructions import BYTES, WORDS, Memory
from kernels.int8.requantize import Multiply
from kernels.workload.base import QConv2d


def emit(plan: QChainPlan, args: Buffers) -> None:
    """The whole function."""
    with code_shape.linked(), tir.with_llvm(hvx.LLVM):
        ChainNest(plan.slices, plan.threads, ByteWork(plan, args)).emit()


class ByteWork:
    """Copies, and the micro-kernels of both convolutions."""

    def __init__(self, plan: QChainPlan, args: Buffers) -> None:
        self.plan, self.args = plan, args
        self.slices, self.parts = plan.slices, plan.workload.parts

    def allocate(self) -> None:
        """The caches, and the sums of pixels."""
        slices = self.slices
        self.source = Memory(max(slices.source.elements, slices.result.elements))
        self.between = Memory(slices.between.elements)
        # Vectors alone read filters; slices are read by scalar loads as well, which fast memory makes wait.
        self.cached = Memory(slices.filters, fast=bool(self.plan.target.fast_bytes))
        self.sums = Memory(self.plan.pixels * PIXEL, "int32")
        two = self.parts[SECOND]
        if any(two.pad):
            zero = self._zero(two)
            with tir.loop(slices.between.elements // BYTES) as turn:
                self.between.save(zero, turn * BYTES)

    def _zero(self, part: QConv2d) -> Vector:
        """A vector of its data's zero point."""
        return hvx.as_words(const(part.data_zero + self.plan.offset(part), "uint8", BYTES))

    def _source(self, stage: int) -> tuple[Blocked, Memory]:
        if stage == FIRST:
            return self.slices.source, self.source
        return self.slices.between, self.between

    def together(self, stage: int) -> int:
        """Vectors of channels in registers."""
        return self.plan.together(self.parts[stage])

    def read(self, image: Index, row: Index, line: Index) -> None:
        """A row of the input, with zero points left and right."""
        one, cache = self.parts[FIRST], self.slices.source
        at, left = T.Bind(cache.row(row)), lead(one)
        first = T.Bind((image * one.in_h + line) * (one.in_w * one.in_c))
        if any(one.pad):
            self._blank(at, 0, left)
            self._blank(at, (left + one.in_w) // TOGETHER * TOGETHER, cache.columns)
        flip = self.plan.offset(one) != 0
        whole = one.in_w // TOGETHER * TOGETHER if one.in_c % BYTES == 0 else 0
        with tir.loop(whole // TOGETHER) as group, tir.loop(one.in_c // BYTES) as quarter:
            pixel = T.Bind(first + group * (TOGETHER * one.in_c) + quarter * BYTES)
            rows = []
            for i in range(TOGETHER):
                rows.append(hvx.load(self.args.data, pixel + i * one.in_c))
                code_shape.order()
            place = T.Bind(at + cache.column(left + group * TOGETHER))
            for number, value in enumerate(hvx.squares(rows)):
                value = hvx.flipped(value) if flip else value
                self.source.save(value, place + cache.channel_block(quarter * 4 + number))
        with tir.loop(one.in_w - whole) as rest:
            w = T.Bind(whole + rest)
            self._pixel_in(T.Bind(first + w * one.in_c), T.Bind(at + cache.column(left + w)))

    def _pixel_in(self, pixel: Index, place: Index) -> None:
        """All channels of a pixel of the input, and zeros that fill up the last block."""
        one, cache = self.parts[FIRST], self.slices.source
        flip = self.plan.offset(one) != 0
        blocks, rest = divmod(one.in_c, CHANNELS)

        def piece(to: Index, channel: Index, width: int) -> None:
            value = self.args.data[vector(pixel + channel, width)]
            value = tir.reinterpret(value, "uint8", width)
            if flip:
                value = _flipped(value, width)
            self.source.put(value, place + to, width)

        if blocks:
            with tir.loop(blocks) as block:
                for at in range(0, CHANNELS, PIXEL):
                    piece(cache.channel_block(block) + at, block * CHANNELS + at, PIXEL)
        if rest:
            for at in range(rest):
                piece(cache.channel_block(blocks) + at, blocks * CHANNELS + at, 1)
            for at in range(rest, CHANNELS):
                self.source.put(const(0, "uint8"), place + cache.channel_block(blocks) + at, 1)

    def blank(self, row: Index) -> None:
        """A row of zero points."""
        cache = self.slices.source
        self._blank(T.Bind(cache.row(row)), 0, cache.columns)

    def _blank(self, at: Index, begin: int, end: int) -> None:
        """Zero points in columns from ``begin``, a multiple of four, to at least ``end`` of a row."""
        cache, one = self.slices.source, self.parts[FIRST]
        zero = self._zero(one)
        if begin >= end:
            return
        with tir.loop(-(-(end - begin) // TOGETHER)) as group, tir.loop(cache.across // cache.cell) as block:
            place = at + cache.column(begin + group * TOGETHER) + cache.channel_block(block)
            self.source.save(zero, T.Bind(place))

    def ready(self, stage: int, rows: Index) -> None:
        """The sums of all pixels, in each eighth word."""
        cache, source = self._source(stage)
        ones = const(0x01010101)
        blocks = cache.across // cache.cell
        groups = -(-cache.columns // TOGETHER)
        with tir.loop(rows) as row, tir.loop(groups) as group:
            place = T.Bind(cache.row(row) + cache.column(group * TOGETHER))
            total = tir.registers(WORDS, "int32")
            every = vector(0, WORDS)
            store(total, const(0, lanes=WORDS), every)
            with tir.loop(blocks) as block:
                data = source.load(place + cache.channel_block(block))
                store(total, hvx.products(total[every], data, ones), every)
            at = T.Bind((row * (groups * TOGETHER) + group * TOGETHER) * PIXEL)
            self.sums.save(hvx.sum_of_pixels(total[every]), at)

    def filters(self, stage: int, block: Index, inner: Index) -> None:
        """Filters of 32 channels to the cache."""
        size, given = self.slices.filter_block(self.parts[stage]), self.args.constants[stage]["weights"]
        with tir.loop(size // BYTES) as turn:
            value = hvx.load(given, block * size + turn * BYTES)
            self.cached.save(value, inner * size + turn * BYTES)
            hvx.settle()

    def filters_at(self, stage: int, block: Index, inner: Index) -> Index:
        """In the cache."""
        return T.Bind(tir.index(inner * self.slices.filter_block(self.parts[stage])))

    def windows(self, stage: int, place: Place, count: int) -> None:
        """A row of windows, groups of them in registers."""
        most = self.plan.knobs.block[0]
        for first in range(0, count, most):
            self._block(stage, place, first, min(most, count - first))

    def _block(self, stage: int, place: Place, first: int, count: int) -> None:
        """``count`` windows by some vectors of channels, from window ``first`` of 8 on."""
        part, vectors = self.parts[stage], place.blocks
        cache, source = self._source(stage)
        total = tir.registers(count * vectors * WORDS, "int32")

        def slot(i: int, j: int) -> Vector:
            return vector((i * vectors + j) * WORDS, WORDS)

        given = self.args.constants[stage]
        channel = T.Bind(place.block * CHANNELS)
        biases = [T.Bind(given["bias"][vector(channel + j * WORDS, WORDS)]) for j in range(vectors)]
        for i in range(count):
            more = splat(self._data_sum(stage, place, first + i) * MIDDLE, WORDS)
            for j in range(vectors):
                store(total, hvx.words("vsubw", biases[j], more), slot(i, j))
        size = self.slices.filter_block(part)
        columns = T.Bind(tir.index(place.column * (part.stride[1] * cache.across)))
        blocks = cache.across // cache.cell
        with tir.loop(blocks) as co, tir.loop(part.kh) as rh:
            begin = columns + cache.row(place.source + rh * part.dilation[0])
            row = T.Bind(begin + cache.channel_block(co))
            for rw in range(part.kw):
                offsets = [
                    cache.column(skipped(part) + (first + i) * part.stride[1] + rw * part.dilation[1])
                    for i in range(count)
                ]
                tap = (co * part.kh + rh) * part.kw + rw
                at = T.Bind(place.filters + tap * (CHANNELS * CHANNELS))
                with code_shape.kept_loop(CHANNELS // (2 * DEPTH)) as turn:
                    units = [source.pair(row + offset + turn * (2 * DEPTH)) for offset in offsets]
                    for half in (0, 1):
                        for j in range(vectors):
                            filters = self.cached.load(at + (turn * 2 + half) * BYTES + j * size)
                            for i in range(count):
                                value = hvx.products(total[slot(i, j)], filters, units[i][half])
                                store(total, value, slot(i, j))
        for j in range(vectors):
            multiply = self._scaling(stage, channel + j * WORDS)
            for i in range(0, count, TOGETHER):
                values = [multiply(total[slot(i + k, j)]) for k in range(min(TOGETHER, count - i))]
                self._store(stage, place, first + i, j, values)

    def _data_sum(self, stage: int, place: Place, window: int) -> Expr:
        """The sum of all data of a window."""
        part, (cache, _) = self.parts[stage], self._source(stage)
        across = -(-cache.columns // TOGETHER) * TOGETHER
        column = place.column * (COLUMNS * part.stride[1]) + skipped(part) + window * part.stride[1]
        total: Expr = None
        for rh in range(part.kh):
            row = place.source + rh * part.dilation[0]
            for rw in range(part.kw):
                value = self.sums[(row * across + column + rw * part.dilation[1]) * PIXEL]
                total = value if total is None else total + value
        return T.Bind(total)

    def _scaling(self, stage: int, channel: Index) -> Multiply:
        part, given = self.parts[stage], self.args.constants[stage]
        multiplier, shift = (T.Bind(given[name][vector(channel, WORDS)]) for name in ("multiplier", "shift"))
        how = {"small": "high", "power": "shift"}.get(part.scale, "exact")
        return hvx.scaling(multiplier, shift, how)

    def _store(self, stage: int, place: Place, window: int, j: int, values: list[Vector]) -> None:
        """Results of up to four windows; those that are missing to four are zero points."""
        part = self.parts[stage]
        values = values + [const(0, lanes=WORDS)] * (TOGETHER - len(values))
        added = MIDDLE if part.out_dtype == "int8" else 0
        low, high = (end + added for end in part.out_range)
        result = hvx.limited(hvx.narrowed(values, part.out_zero + added), low, high)
        if stage == FIRST:
            cache, buffer = self.slices.between, self.between
            column, block = lead(self.parts[SECOND]) + window, place.block + j
        else:
            cache, buffer, column, block = self.slices.result, self.source, window, place.inner + j
        at = cache.row(place.out) + place.column * cache.across + cache.column(column)
        buffer.save(result, T.Bind(at + cache.channel_block(block)))

    def blank_windows(self, place: Place, count: int) -> None:
        """Zero points between."""
        cache, left, two = self.slices.between, lead(self.parts[SECOND]), self.parts[SECOND]
        zero = self._zero(two)
        for j in range(place.blocks):
            for window in range(0, count, TOGETHER):
                at = cache.row(place.out) + place.column * cache.across + cache.column(left + window)
                self.between.save(zero, T.Bind(at + cache.channel_block(place.block + j)))

    def move_between(self, source: Index, row: Index) -> None:
        """All channels of a row; the rows do not overlap."""
        cache = self.slices.between
        one, other = T.Bind(cache.row(source)), T.Bind(cache.row(row))
        with tir.loop(cache.down // cache.cell) as block:
            for at in range(0, COLUMNS * CHANNELS, BYTES):
                value = self.between.load(one + block * cache.cell + at)
                self.between.save(value, other + block * cache.cell + at)

    def write(self, image: Index, row: Index, line: Index, first: Index, blocks: Index) -> None:
        """A row of the result."""
        two, cache = self.parts[SECOND], self.slices.result
        at, begin = T.Bind(cache.row(row)), T.Bind(tir.index(first * CHANNELS))
        pixels = T.Bind((image * two.out_h + line) * (two.out_w * two.out_c) + begin)
        flip = two.out_dtype == "int8"
        whole = 0
        if two.out_c % BYTES == 0 and isinstance(blocks, int) and blocks % TOGETHER == 0:
            whole = two.out_w // TOGETHER * TOGETHER
            with tir.loop(whole // TOGETHER) as group, tir.loop(blocks // TOGETHER) as quarter:
                place = T.Bind(at + cache.column(group * TOGETHER) + cache.channel_block(quarter * 4))
                rows = [self.source.load(place + cache.channel_block(i)) for i in range(TOGETHER)]
                pixel = T.Bind(pixels + group * (TOGETHER * two.out_c) + quarter * BYTES)
                for number, value in enumerate(hvx.squares(rows)):
                    value = hvx.flipped(value) if flip else value
                    hvx.save(self.args.out, value, pixel + number * two.out_c)
                    code_shape.order()
        with tir.loop(two.out_w - whole) as rest, tir.loop(blocks) as block:
            w = T.Bind(whole + rest)
            place = T.Bind(at + cache.column(w) + cache.channel_block(block))
            pixel = T.Bind(pixels + w * two.out_c + block * CHANNELS)
            self._piece_out(place, pixel, begin + block * CHANNELS)

    def _piece_out(self, place: Index, pixel: Index, channel: Index) -> None:
        """32 channels of a pixel, or as many as there are left."""
        two = self.parts[SECOND]
        flip = two.out_dtype == "int8"

        def piece(at: int, width: int) -> None:
            value = self.source.piece(place + at, width)
            value = _flipped(value, width) if flip else value
            value = tir.reinterpret(value, two.out_dtype, width)
            store(self.args.out, value, vector(pixel + at, width))

        def whole() -> None:
            for at in range(0, CHANNELS, PIXEL):
                piece(at, PIXEL)

        def part() -> None:
            for at in range(two.out_c % CHANNELS):
                piece(at, 1)

        if two.out_c < CHANNELS:
            part()
        elif two.out_c % CHANNELS:
            tir.choose(tir.index(channel) + CHANNELS <= two.out_c, whole, part)
        else:
            whole()


def _flipped(value: Vector, width: int) -> Vector:
    return tirx.bitwise_xor(value, const(128, "uint8", width))
