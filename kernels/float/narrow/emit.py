"""The code of a product by narrow weights: they become floats in registers, right before they are used.

A word has several weights of a column. Weight i of it is what a mask leaves, ``16^i`` (or ``256^i``) times
too large; so the data that it meets are as much smaller, which is exact. The data are prepared first, with
their sums over each block: ``sum of data * (quantum - zero)`` is that of ``data * quantum`` less ``zero``
times that of the data.

Data that are to be rounded become int8 before that. Where a target multiplies bytes, they meet the quanta as
bytes: four neighbours of a column in a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tir import F32, const, convert, reinterpret
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import load_part, split
from kernels.float.narrow.dots import Dot, four_at
from kernels.float.narrow.halves import float_of_half
from kernels.float.narrow.plan import NarrowArguments, Plan
from kernels.float.narrow.rounding import Rounded, round_data


def emit(plan: Plan, args: NarrowArguments) -> None:
    """The data prepared, then panels, shared out over the threads, each with all rows."""
    _Emitter(plan, args).run()


@dataclass(frozen=True)
class _Tile:
    """``rows`` rows from ``top`` on by a panel of which ``count`` columns are there."""

    rows: int
    top: Index
    panel: Index
    count: int


class _Emitter:
    def __init__(self, plan: Plan, args: NarrowArguments) -> None:
        self.plan, self.gemm, self.args, self.lanes = plan, plan.workload, args, plan.lanes
        self.data: Buffer = args.data
        self.zeros: Buffer = None
        self.rounded: Rounded | None = None

    def run(self) -> None:
        """All of it."""
        plan, gemm = self.plan, self.gemm
        if gemm.rounded:
            self.rounded = round_data(gemm, self.args.data, plan.filled, self.lanes)
        if plan.way is not None and self.rounded is not None:
            self.zeros = self.rounded.zeros
        elif gemm.bits < 16:
            self._prepare()
        whole = gemm.n // plan.width
        with tir.loop(whole, min(plan.threads, max(1, whole))) as panel:
            self._panel(panel, plan.width)
        if rest := gemm.n % plan.width:
            self._panel(tir.index(whole), rest)

    def _prepare(self) -> None:
        """The data as they meet the weights of a word, and the sums of each block that zeros take off."""
        plan, gemm = self.plan, self.gemm
        self.data, self.zeros = tir.scratch(gemm.m * plan.filled), tir.scratch(gemm.m * gemm.blocks)
        usual = tir.number(1.0 if gemm.zeros else 2 ** (gemm.bits - 1))
        with tir.loop(gemm.m) as row:

            def word(at: Index, count: int, row: Index = row) -> Vector:
                values = [T.Bind(self._datum(row, at * gemm.together + i)) for i in range(count)]
                for i in range(gemm.together):
                    value = values[i] * tir.number(self._factor(i)) if i < count else tir.number(0.0)
                    tir.store(self.data, value, row * plan.filled + at * gemm.together + i)
                while len(values) > 1:
                    pairs = [values[i : i + 2] for i in range(0, len(values), 2)]
                    values = [T.Bind(pair[0] + pair[1]) if len(pair) > 1 else pair[0] for pair in pairs]
                return values[0]

            for first, count, words, rest in self._blocks():
                with tir.loop(count) as block:
                    total = tir.registers(1)
                    tir.store(total, tir.number(0.0), 0)
                    start = T.Bind((first + block) * (gemm.block // gemm.together))
                    with tir.loop(words) as at:
                        tir.store(total, total[0] + word(start + at, gemm.together), 0)
                    if rest:
                        tir.store(total, total[0] + word(start + words, rest), 0)
                    tir.store(self.zeros, total[0] * usual, row * gemm.blocks + first + block)

    def _datum(self, row: Index, at: Index) -> Vector:
        if self.rounded is None:
            return self.args.data[row * self.gemm.k + at]
        return convert(self.rounded.data[row * self.plan.filled + at], F32, 1)

    def _blocks(self) -> Iterator[tuple[int, int, int, int]]:
        """(first, count, whole words, weights of one more word) of the blocks, the last of which is apart."""
        gemm = self.gemm
        whole, last = divmod(gemm.k, gemm.block)
        for first, count, size in ((0, whole, gemm.block), (whole, 1, last)):
            if count and size:
                yield first, count, *divmod(size, gemm.together)

    def _factor(self, place: int) -> float:
        """What the data are multiplied by that meet the weight at ``place`` of a word."""
        return 1.0 if place == self.gemm.together - 1 else 2.0 ** (-self.gemm.bits * place)

    def _panel(self, panel: Index, count: int) -> None:
        def block(rows: int, top: Index) -> None:
            self._tile(_Tile(rows, top, panel, count))

        tir.blocks(self.gemm.m, self.plan.rows, block)

    def _tile(self, tile: _Tile) -> None:
        sums = _Sums(tile, self.lanes)
        args, gemm = self.args, self.gemm

        def bias(start: int) -> Vector:
            if args.bias is None:
                return tir.zeros(self.lanes)
            return T.Bind(load_part(args.bias, self._column(tile, start), sums.count(start), self.lanes))

        sums.begin(bias)
        if gemm.bits == 16:
            self._words(tile, sums, tir.index(0), gemm.k)
        else:
            for first, count, words, rest in self._blocks():
                with tir.loop(count) as block:
                    self._block(tile, sums, T.Bind(first + block), words + (rest > 0))
        for row, start in sums.cells:
            for offset, width, part in split(sums.value(row, start), sums.count(start), self.lanes):
                at = (tile.top + row) * gemm.n + self._column(tile, start) + offset
                args.store_out(part, at, width)

    def _column(self, tile: _Tile, start: int) -> Index:
        return tile.panel * self.plan.width + start

    def _block(self, tile: _Tile, sums: _Sums, block: Index, words: int) -> None:
        """The sums of one block, and what they add to all."""
        gemm, args, plan = self.gemm, self.args, self.plan
        first, way = T.Bind(block * (gemm.block // gemm.together)), plan.way
        inner = _Sums(tile, self.lanes, F32 if way is None else "int32")
        inner.begin(lambda start: tir.zeros(self.lanes) if way is None else const(0, lanes=self.lanes))
        if way is None:
            self._words(tile, inner, first, words)
        else:
            self._bytes(way, tile, inner, first, words)
        for start in inner.starts:
            at = tir.vector((tile.panel * gemm.blocks + block) * plan.width + start, self.lanes)
            scale = T.Bind(args.scale[at])
            zero = None if args.zero is None else T.Bind(args.zero[at])
            for row in range(tile.rows):
                number = (tile.top + row) * gemm.blocks + block
                off = tir.splat(self.zeros[number], self.lanes)
                total = inner.value(row, start)
                if way is not None:
                    total = convert(total, F32, self.lanes)
                less = total - (off if zero is None else off * zero)
                if self.rounded is not None:
                    less = less * tir.splat(self.rounded.steps[number], self.lanes)
                sums.put(row, start, sums.value(row, start) + less * scale)

    def _words(self, tile: _Tile, sums: _Sums, first: Index, count: int) -> None:
        """Add the products of ``count`` words from ``first`` on."""
        plan, together = self.plan, self.gemm.together
        with tir.loop(count) as turn:
            at = T.Bind(first + turn)
            base = T.Bind((tile.panel * plan.words + at) * plan.width)
            words = [T.Bind(self.args.weights[tir.vector(base + start, self.lanes)]) for start in sums.starts]
            unpacked = [self._unpacked(word) for word in words]
            for place in range(together):
                data = [
                    T.Bind(
                        tir.splat(
                            self.data[(tile.top + row) * plan.filled + at * together + place], self.lanes
                        )
                    )
                    for row in range(tile.rows)
                ]
                for start, weights in zip(sums.starts, unpacked, strict=True):
                    value = T.Bind(weights(place))
                    for row in range(tile.rows):
                        sums.put(row, start, sums.value(row, start) + data[row] * value)

    def _bytes(self, way: Dot, tile: _Tile, sums: _Sums, first: Index, count: int) -> None:
        """The same of bytes, whose sums are of int32."""
        plan, together, lanes = self.plan, self.gemm.together, self.lanes
        assert self.rounded is not None
        data = self.rounded.data

        def word(at: Index) -> None:
            base = T.Bind((tile.panel * plan.words + at) * plan.width)
            words = [T.Bind(self.args.weights[tir.vector(base + start, lanes)]) for start in sums.starts]
            for part in range(together // 4):
                rows = [(tile.top + row) * plan.filled + at * together + 4 * part for row in range(tile.rows)]
                fours = [T.Bind(four_at(data, row, lanes)) for row in rows]
                for start, each in zip(sums.starts, words, strict=True):
                    quanta = each if self.gemm.bits == 8 else T.Bind(_half(each, part, lanes))
                    for row, four in enumerate(fours):
                        total = way.add(sums.value(row, start), quanta, four, plan.target.vector_bits)
                        sums.put(row, start, total)

        several = next(size for size in (4, 2, 1) if count % size == 0)
        with tir.loop(count // several) as turn:
            for each in range(several):
                word(T.Bind(first + (turn * several + each)))

    def _unpacked(self, word: Vector) -> Callable[[int], Vector]:
        """A function from a place of a vector of words to its floats, too large as ``_factor`` says."""
        bits, lanes = self.gemm.bits, self.lanes
        if bits == 16:
            return lambda place: float_of_half(word, self.plan.target, lanes)

        def at(place: int) -> Vector:
            if place == self.gemm.together - 1:
                upper = reinterpret(word, "uint32", lanes)
                upper = tirx.shift_right(upper, const(32 - bits, "uint32", lanes))
                return convert(reinterpret(upper, "int32", lanes), F32, lanes)
            mask = const((2**bits - 1) << (bits * place), lanes=lanes)
            return convert(tirx.bitwise_and(word, mask), F32, lanes)

        return at


def _half(words: Vector, part: int, lanes: int) -> Vector:
    """The lower or the upper halves of all bytes."""
    if part:
        words = tirx.shift_right(reinterpret(words, "uint32", lanes), const(4, "uint32", lanes))
        words = reinterpret(words, "int32", lanes)
    return tirx.bitwise_and(words, const(0x0F0F0F0F, lanes=lanes))


class _Sums:
    """``rows`` x the vectors of a panel of sums in registers."""

    def __init__(self, tile: _Tile, lanes: int, dtype: str = F32) -> None:
        self._columns, self._lanes = tile.count, lanes
        self.starts = range(0, tile.count, lanes)
        self.cells = [(row, start) for row in range(tile.rows) for start in self.starts]
        self._slots = {cell: tir.vector(slot * lanes, lanes) for slot, cell in enumerate(self.cells)}
        self._registers = tir.registers(len(self.cells) * lanes, dtype)

    def count(self, start: int) -> int:
        """How many columns the vector from ``start`` has."""
        return min(self._lanes, self._columns - start)

    def begin(self, value: Callable[[int], Vector]) -> None:
        """Let the sums of each column start from ``value(start)``."""
        for start in self.starts:
            first = value(start)
            for row, at in self.cells:
                if at == start:
                    self.put(row, start, first)

    def value(self, row: int, start: int) -> Vector:
        """A vector of sums."""
        return self._registers[self._slots[row, start]]

    def put(self, row: int, start: int, value: Vector) -> None:
        """Store a vector of sums."""
        tir.store(self._registers, value, self._slots[row, start])
