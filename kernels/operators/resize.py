"""Images resized in every layout: first rows of the input weighed into one, then pixels of that."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from kernels.arithmetic import ceil_div
from kernels.emit import machine, tir
from kernels.emit.elements import each_vector, threads_for
from kernels.emit.function import Function
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc, Vector
from kernels.emit.vectors import shuffle
from kernels.layout import stored_shape
from kernels.operators.relayout import channels_inside
from kernels.target import Target

STACK_BYTES = 8 * 1024
"""A longer row is taken from the heap."""
GATHER_CYCLES, PIXEL_CYCLES = 3, 4
"""Reading one element of a row by its index; starting a pixel's channels."""


@dataclass(frozen=True)
class Along:
    """One axis: ``before`` elements become ``after``, each the sum of ``taps`` with weights.

    Where each is but one of the input repeated ``repeats`` times, no table says which; else that is 0.
    """

    before: int
    after: int
    taps: int
    repeats: int

    @property
    def tables(self) -> tuple[str, ...]:
        """The types of its tables, each of ``taps`` x ``after``: indices, then weights."""
        return ("int32",) * (not self.repeats) + ("float32",) * (self.taps > 1)


@dataclass(frozen=True)
class Resize:
    """``images`` of ``channels`` whose rows and columns are resized."""

    images: int
    channels: int
    rows: Along
    columns: Along

    @property
    def shape(self) -> tuple[int, ...]:
        """NCHW, before."""
        return (self.images, self.channels, self.rows.before, self.columns.before)

    @property
    def out(self) -> tuple[int, ...]:
        """NCHW, after."""
        return (self.images, self.channels, self.rows.after, self.columns.after)


def predict_resize(each: Resize, layout: str, target: Target, threads: int = 1) -> float:
    """Predicted seconds: element by element where the channels of a pixel are apart."""
    inside, lanes, elements = channels_inside(layout, each.channels), target.lanes(), prod(each.out)
    taps = each.columns.taps
    if inside == 1:
        vectors = each.columns.repeats in (1, 2)
        work = elements * (machine.move_cycles(target) / lanes if vectors else taps * GATHER_CYCLES)
    else:
        moved = ceil_div(inside, lanes) * taps * machine.move_cycles(target)
        work = elements / inside * (moved + PIXEL_CYCLES)
    if each.rows.taps > 1:
        summed = elements * each.columns.before / each.columns.after
        work += summed / lanes * each.rows.taps * machine.move_cycles(target)
    cycles = machine.overlapped(work, machine.stream_cycles(target, 8 * elements, 8 * elements))
    return machine.seconds(target, machine.CALL_CYCLES + cycles / threads_for(elements, threads))


def build_resize(each: Resize, layout: str, target: Target, threads: int, name: str) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are the data, the tables of rows and columns, and the result.

    Both images are stored in ``layout``.
    """
    shapes, dtypes = {"data": stored_shape(layout, each.shape)}, {}
    for word, along in (("rows", each.rows), ("columns", each.columns)):
        for dtype in along.tables:
            shapes[f"{word}_{dtype}"] = (along.taps, along.after)
            dtypes[f"{word}_{dtype}"] = dtype
    function = Function(name, {**shapes, "out": stored_shape(layout, each.out)}, dtypes)
    with function as arrays:
        named = dict(zip([*shapes, "out"], arrays, strict=True))
        _Emitter(each, named, channels_inside(layout, each.channels), target.lanes()).emit(
            threads_for(prod(each.out), threads)
        )
    return function.result()


class _Emitter:
    def __init__(self, each: Resize, named: dict[str, Buffer], inside: int, lanes: int) -> None:
        self.each, self.named, self.inside, self.lanes = each, named, inside, lanes
        self.line = each.columns.before * inside

    def emit(self, threads: int) -> None:
        """Row by row of the result."""
        rows, columns = self.each.rows, self.each.columns
        groups = self.each.images * self.each.channels // self.inside
        shared = self._buffer() if threads == 1 else None
        with tir.loop(groups * rows.after, threads) as turn:
            group, y = T.Bind(turn // rows.after), T.Bind(turn % rows.after)
            starts = [
                T.Bind((group * rows.before + self._index("rows", y, tap)) * self.line)
                for tap in range(rows.taps)
            ]
            source, start = self.named["data"], starts[0]
            if rows.taps > 1:
                factors = [T.Bind(self._weight("rows", y, tap)) for tap in range(rows.taps)]
                data, source, start = source, self._buffer() if shared is None else shared, tir.const(0)

                def add(first: Index, width: int) -> None:
                    parts = [data[tir.vector(at + first, width)] for at in starts]
                    tir.store(source, _weighed(parts, factors, width), tir.vector(first, width))

                each_vector(self.line, self.lanes, 1, add)
            to = T.Bind(turn * (columns.after * self.inside))
            (self._pixels if self.inside > 1 else self._elements)(source, start, to)

    def _buffer(self) -> Buffer | None:
        if self.each.rows.taps == 1:
            return None
        return (tir.registers if 4 * self.line <= STACK_BYTES else tir.scratch)(self.line)

    def _pixels(self, source: Buffer, start: Expr, to: Expr) -> None:
        """All channels of one pixel after the other."""
        columns, inside, out = self.each.columns, self.inside, self.named["out"]
        if columns.repeats:
            with tir.loop(columns.before) as x:

                def repeat(first: Index, width: int) -> None:
                    value = T.Bind(source[tir.vector(start + x * inside + first, width)])
                    for time in range(columns.repeats):
                        at = to + (x * columns.repeats + time) * inside + first
                        tir.store(out, value, tir.vector(at, width))

                each_vector(inside, self.lanes, 1, repeat)
            return
        with tir.loop(columns.after) as x:
            places = [T.Bind(start + self._index("columns", x, tap) * inside) for tap in range(columns.taps)]
            factors = [T.Bind(self._weight("columns", x, tap)) for tap in range(columns.taps)]

            def add(first: Index, width: int) -> None:
                parts = [source[tir.vector(place + first, width)] for place in places]
                tir.store(out, _weighed(parts, factors, width), tir.vector(to + x * inside + first, width))

            each_vector(inside, self.lanes, 1, add)

    def _elements(self, source: Buffer, start: Expr, to: Expr) -> None:
        """One row of a plane."""
        columns, out = self.each.columns, self.named["out"]
        times = columns.repeats
        if times:

            def repeat(first: Index, width: int) -> None:
                value = source[tir.vector(start + first, width)]
                if width > 1 and times > 1:
                    value = T.Bind(value)
                for time in range(times):
                    part = [(time * width + lane) // times for lane in range(width)]
                    moved = value if width == 1 or times == 1 else shuffle([value], part)
                    tir.store(out, moved, tir.vector(to + first * times + time * width, width))

            each_vector(columns.before, self.lanes, 1, repeat)
            return

        def gather(first: Index, width: int) -> None:
            with T.vectorized(0, width) as lane:
                x = first + lane
                total = _sum(
                    source[start + self._index("columns", x, tap)] * self._weight("columns", x, tap)
                    for tap in range(columns.taps)
                )
                tir.store(out, total, to + x)

        each_vector(columns.after, self.lanes, 1, gather)

    def _index(self, word: str, at: Expr, tap: int) -> Expr:
        along: Along = getattr(self.each, word)
        if along.repeats:
            return tirx.floordiv(at, tir.const(along.repeats)) if along.repeats > 1 else at
        return self.named[f"{word}_int32"][at + tap * along.after]

    def _weight(self, word: str, at: Expr, tap: int) -> Expr:
        along: Along = getattr(self.each, word)
        if along.taps == 1:
            return tir.number(1.0)
        return self.named[f"{word}_float32"][at + tap * along.after]


def _weighed(parts: Sequence[Vector], factors: Sequence[Expr], width: int) -> Vector:
    if len(parts) == 1:
        return parts[0]
    return _sum(part * tir.splat(factor, width) for part, factor in zip(parts, factors, strict=True))


def _sum(parts: Iterable[Vector]) -> Vector:
    return reduce(operator.add, parts)
