"""The arithmetic of the depthwise convolution of bytes: a few windows of one vector of channels.

Each half of the channels goes through on its own, as far as int16, so that what is live fits the registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernels.emit import code_shape, tir
from kernels.emit.tir import const, reinterpret
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Vector
from kernels.emit.vectors import shuffle, split
from kernels.int8.tir import QArguments
from kernels.int8.wrapping import added
from kernels.int8.x86.depthwise.plan import HIGH, Plan
from kernels.int8.x86.depthwise.taps import Tap
from kernels.int8.x86.finish import CROSSED, narrow_words, rounded_words, scaling, upper_products, words_of
from kernels.int8.x86.instructions import add_pairs, add_products

Spot = tuple[int, tuple[int, ...]]
"""A row and, for each window in a vector, a column, from the first window's corner."""


@dataclass(frozen=True)
class Place:
    """Where a block lies: elements of source and output, the number of its vector of channels, and the row
    and the column of the data where it begins, if it reaches into the padding."""

    at: Expr
    out: Expr
    vector: Expr
    top: int | None
    left: int | None


@dataclass
class Block:
    """``size`` windows, ``together`` in each vector."""

    plan: Plan
    args: QArguments
    source: Buffer
    place: Place
    size: int
    together: int
    at: Expr = None
    packed: Expr = None
    filled: Expr = None
    mixed: dict[tuple[Spot, Spot], Vector] = field(default_factory=dict)
    loaded: dict[Spot, Vector] = field(default_factory=dict)

    @property
    def units(self) -> list[tuple[int, ...]]:
        """The windows of each vector; the last is there twice where they do not come out even."""
        firsts = range(0, self.size, self.together)
        return [tuple(min(u + i, self.size - 1) for i in range(self.together)) for u in firsts]

    def emit(self) -> None:
        """Both halves, then the results."""
        plan, conv = self.plan, self.plan.conv
        # So that constants are not moved out of loops, to where they are stored to the stack.
        vector = code_shape.fresh(self.place.vector, self.place.at)
        self.packed = T.Bind(vector * plan.packed_vector)
        self.filled = T.Bind(vector * (plan.kinds * plan.lanes))
        halves = [self._half(half) for half in range(2)]
        width = plan.lanes // self.together
        for unit, parts in zip(self.units, zip(*halves, strict=True), strict=True):
            if conv.scale_length:
                result = narrow_words(conv, [part[0] for part in parts], plan.bits)
                if plan.knobs.requant == HIGH:
                    result = shuffle([result], [lane & ~3 | CROSSED[lane & 3] for lane in range(plan.lanes)])
            else:
                order = plan.channels.unpacked
                quarters = [value for part in parts for value in part]
                result = shuffle(quarters, [order.index(lane) for lane in range(plan.lanes)])
            for at, window in enumerate(dict.fromkeys(unit)):
                lanes = range(at * width, (at + 1) * width)
                part = result if self.together == 1 else shuffle([result], lanes)
                for offset, count, piece in split(part, min(width, conv.out_c), width):
                    start = self.place.out + (window * conv.out_c + offset)
                    tir.store(self.args.out, piece, tir.vector(start, count))

    def _half(self, half: int) -> list[list[Vector]]:
        """For each unit the results of half the channels as int16, or the two vectors of their sums."""
        plan, conv = self.plan, self.plan.conv
        # Loading the data twice is cheaper than keeping them.
        self.at = code_shape.fresh(self.place.at, half)
        self.mixed, self.loaded = {}, {}
        sums = [[bias] * len(self.units) for bias in self._constants(self.args.bias, half)]
        for number in range(0, len(plan.taps.groups), 2):
            pair = range(number, min(number + 2, len(plan.taps.groups)))
            sums = [
                # The bias may have wrapped.
                [T.Bind(added(total, term, plan.lanes // 4)) for total, term in zip(*both, strict=True)]
                for both in zip(sums, self._widened(half, pair), strict=True)
            ]
        if not conv.scale_length:
            return [list(both) for both in zip(*sums, strict=True)]
        if plan.knobs.requant == HIGH:
            return self._high(half, sums)
        multipliers, shifts = (
            self._constants(buffer, half) for buffer in (self.args.multiplier, self.args.shift)
        )
        scaled = []
        for values, multiplier, shift in zip(sums, multipliers, shifts, strict=True):
            multiply = scaling(multiplier, shift, plan.knobs.requant, plan.lanes // 4)
            scaled.append([T.Bind(multiply(value)) for value in values])
        return [[words_of(one, other, plan.bits)] for one, other in zip(*scaled, strict=True)]

    def _high(self, half: int, sums: list[list[Vector]]) -> list[list[Vector]]:
        """Requantize as ``Plan.scales`` says, the last bits in int16."""
        plan, args, quarter = self.plan, self.args, self.plan.lanes // 4
        even, odd = (self._constants(args.multiplier, half, which) for which in range(2))
        factors = args.shift[tir.vector(self.filled + (4 + half) * quarter, quarter)]
        factors = T.Bind(reinterpret(factors, "int16", 2 * quarter))
        scaled = []
        shifts = self._constants(args.shift, half)
        for values, multiplier, lower, shift in zip(sums, even, odd, shifts, strict=True):
            upper = [upper_products(value, multiplier, lower, quarter) for value in values]
            scaled.append([T.Bind(tirx.shift_right(value, shift)) for value in upper])
        words = [words_of(one, other, plan.bits) for one, other in zip(*scaled, strict=True)]
        return [[rounded_words(word, factors, plan.bits)] for word in words]

    def _constants(self, buffer: Buffer, half: int, which: int = 0) -> list[Vector]:
        """Two quarters of one of the kinds of constants that a buffer holds of each vector."""
        quarter = self.plan.lanes // 4
        at = self.filled + (which * 4 + half * 2) * quarter
        return [T.Bind(buffer[tir.vector(at + j * quarter, quarter)]) for j in range(2)]

    def _widened(self, half: int, pair: range) -> list[list[Vector]]:
        """The sums of one or two groups in int32: the first four and the last four of each eight lanes."""
        words, bits = self.plan.lanes // 2, self.plan.bits
        groups = [self._group(half, number) for number in pair]
        one, *other = map(self.plan.taps.times, pair)
        both = sum(other) << 16 | one & 0xFFFF  # two int16
        factors = reinterpret(const(both, "int32", words // 2), "int16", words)
        found: list[list[Vector]] = []
        for j in range(2):
            lanes = [eight + 4 * j + i for eight in range(0, words, 8) for i in range(4)]
            order = [lane for c in lanes for lane in (c, words + c)]
            mixed = (shuffle([a, b], order) for a, b in zip(groups[0], groups[-1], strict=True))
            found.append([add_pairs(each, factors, bits) for each in mixed])
        return found

    def _group(self, half: int, number: int) -> list[Vector]:
        """The sums of one group of taps in int16, less their middle, for each unit."""
        plan, words = self.plan, self.plan.lanes // 2
        base = self.packed + half * (plan.packed_vector // 2)
        skipped = sum(len(group) for group in plan.taps.groups[:number])
        totals: list[Vector] = []
        for at, product in enumerate(plan.taps.groups[number]):
            packed = self.args.weights[tir.vector(base + (skipped + at) * words, words)]
            factor = T.Bind(reinterpret(packed, "int8", plan.lanes))
            products = []
            for unit in self.units:
                mixed = self._mixed(half, unit, *product.pair)
                products.append(T.Bind(add_products(mixed, factor, plan.bits)))
            totals = [T.Bind(a + b) for a, b in zip(totals, products, strict=True)] if at else products
        if number in plan.taps.centered:
            place = base + (len(plan.taps.products) + plan.taps.centered.index(number)) * words
            middle = T.Bind(self.args.weights[tir.vector(place, words)])
            totals = [T.Bind(total + middle) for total in totals]
        return totals

    def _mixed(self, half: int, unit: tuple[int, ...], one: Tap, other: Tap | None) -> Vector:
        """The data of two taps, byte beside byte; that of one alone beside any."""
        first = self._spot(unit, one)
        second = self._spot(unit, other) if other else self._neighbour(first)
        if (first, second) not in self.mixed:
            lanes = self.plan.lanes
            order = [lane for c in self.plan.channels.halves[half] for lane in (c, lanes + c)]
            value = shuffle([self._data(first), self._data(second)], order)
            if self.plan.offset and not self.plan.staged:
                value = T.Bind(tirx.bitwise_xor(value, const(128, "uint8", lanes)))
            self.mixed[first, second] = value
        return self.mixed[first, second]

    def _neighbour(self, first: Spot) -> Spot:
        """What ``first`` is mixed with for another window anyway, or itself."""
        pairs = [
            (self._spot(unit, one), self._spot(unit, other))
            for unit in self.units
            for one, other in self.plan.taps.pairs
            if other
        ]
        return next((other for one, other in pairs if one == first), first)

    def _spot(self, unit: tuple[int, ...], tap: Tap) -> Spot:
        conv = self.plan.conv
        columns = tuple(window * self.plan.step[1] + tap[1] * conv.dilation[1] for window in unit)
        return tap[0] * conv.dilation[0], columns

    def _data(self, spot: Spot) -> Vector:
        if spot not in self.loaded:
            row, columns = spot
            parts = [self._pixel(row, column) for column in columns]
            self.loaded[spot] = parts[0] if len(parts) == 1 else shuffle(parts, range(self.plan.lanes))
        return self.loaded[spot]

    def _pixel(self, row: int, column: int) -> Vector:
        """The channels of one pixel, or padding, as uint8."""
        plan, conv, width = self.plan, self.plan.conv, self.plan.lanes // self.together
        starts, extents = (self.place.top, self.place.left), (conv.in_h, conv.in_w)
        for start, step, extent in zip(starts, (row, column), extents, strict=True):
            if start is not None and not 0 <= start + step < extent:
                return T.Bind(const(conv.data_zero & 255, "uint8", width))
        at = self.at + (row * plan.pitch + column * conv.in_c)
        value = self.source[tir.vector(at, width)]
        unsigned = plan.staged or conv.data_dtype == "uint8"
        return T.Bind(value if unsigned else reinterpret(value, "uint8", width))
