"""The code of a product by narrow weights: they become floats in registers, right before they are used.

A word has several weights of a column. Weight i of it is what a mask leaves, ``16^i`` (or ``256^i``) times
too large; so the data that it meets are as much smaller, which is exact. The data are prepared first, with
their sums over each block: ``sum of data * (quantum - zero)`` is that of ``data * quantum`` less ``zero``
times that of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels.emit import tir
from kernels.emit.tir import F32, const, convert, reinterpret
from kernels.emit.types import Buffer, Index, Vector
from kernels.emit.vectors import load_part, split
from kernels.float.narrow.halves import float_of_half
from kernels.float.narrow.plan import NarrowArguments, Plan


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

    def run(self) -> None:
        """All of it."""
        plan, gemm = self.plan, self.gemm
        if gemm.bits < 16:
            self._prepare()
        whole = gemm.n // plan.width
        with tir.loop(whole, min(plan.threads, max(1, whole))) as panel:
            self._panel(panel, plan.width)
        if rest := gemm.n % plan.width:
            self._panel(tir.index(whole), rest)

    def _prepare(self) -> None:
        """The data as they meet the weights of a word, and the sums of each block that zeros take off."""
        plan, gemm, given = self.plan, self.gemm, self.args.data
        self.data, self.zeros = tir.scratch(gemm.m * plan.filled), tir.scratch(gemm.m * gemm.blocks)
        usual = tir.number(1.0 if gemm.zeros else 2 ** (gemm.bits - 1))
        with tir.loop(gemm.m) as row:

            def word(at: Index, count: int, row: Index = row) -> Vector:
                place = T.Bind(row * gemm.k + at * gemm.together)
                values = [T.Bind(given[place + i]) for i in range(count)]
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
        inner = _Sums(tile, self.lanes)
        inner.begin(lambda start: tir.zeros(self.lanes))
        self._words(tile, inner, T.Bind(block * (gemm.block // gemm.together)), words)
        for start in inner.starts:
            at = tir.vector((tile.panel * gemm.blocks + block) * plan.width + start, self.lanes)
            scale = T.Bind(args.scale[at])
            zero = None if args.zero is None else T.Bind(args.zero[at])
            for row in range(tile.rows):
                off = tir.splat(self.zeros[(tile.top + row) * gemm.blocks + block], self.lanes)
                less = inner.value(row, start) - (off if zero is None else off * zero)
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


class _Sums:
    """``rows`` x the vectors of a panel of sums in registers."""

    def __init__(self, tile: _Tile, lanes: int) -> None:
        self._columns, self._lanes = tile.count, lanes
        self.starts = range(0, tile.count, lanes)
        self.cells = [(row, start) for row in range(tile.rows) for start in self.starts]
        self._slots = {cell: tir.vector(slot * lanes, lanes) for slot, cell in enumerate(self.cells)}
        self._registers = tir.registers(len(self.cells) * lanes)

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
