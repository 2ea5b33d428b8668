"""Channels spread over the pixels of a larger image, in every layout, as after a transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kernels.arithmetic import ceil_div
from kernels.emit import machine, tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.row_copy import copy_row
from kernels.emit.tvm import T
from kernels.emit.types import Buffer, Index, PrimFunc, Vector
from kernels.emit.vectors import shuffle
from kernels.layout import NCHW, NHWC, stored_shape
from kernels.operators.relayout import channels_inside
from kernels.target import Target

ROW_CYCLES = 8
"""Starting a row, or the channels of a pixel."""


@dataclass(frozen=True)
class Interleave:
    """Each pixel of ``shape`` (NCHW) becomes ``steps`` (rows x columns) pixels of ``out``.

    The channels are runs of ``run`` for the first of those pixels, as many for the next, and so on, then the
    next runs of each. ``crop`` (rows, columns; less than ``steps``) of the first pixels are left out.

    Where not all ``steps`` are in one input, ``parts`` says how many are, along rows and along columns: there
    is an input for each of the former with each of the latter, without rows and columns that are left out.
    """

    shape: tuple[int, ...]
    out: tuple[int, ...]
    steps: tuple[int, int]
    run: int
    crop: tuple[int, int] = (0, 0)
    parts: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())

    @property
    def pixels(self) -> int:
        """Pixels that one becomes."""
        return prod(self.steps)

    @property
    def down(self) -> list[Part]:
        """The parts along rows."""
        return self._parts(0)

    @property
    def right(self) -> list[Part]:
        """The parts along columns."""
        return self._parts(1)

    @property
    def inputs(self) -> list[tuple[int, ...]]:
        """The shape (NCHW) of each input."""
        n, c, *_ = self.out
        return [
            (n, c * rows.count * columns.count, rows.extent, columns.extent)
            for rows in self.down
            for columns in self.right
        ]

    def _parts(self, axis: int) -> list[Part]:
        step, cut = self.steps[axis], self.crop[axis]
        end = (cut + self.out[2 + axis] - 1) % step
        found: list[Part] = []
        first = 0
        for count in self.parts[axis] or (step,):
            skipped = int(first + count <= cut)
            found.append(Part(first, count, skipped, max(1, self.shape[2 + axis] - skipped - (first > end))))
            first += count
        return found


@dataclass(frozen=True)
class Part:
    """``count`` of the steps along an axis, from ``first`` on.

    Its inputs have ``extent`` pixels, without the first ``skipped``.
    """

    first: int
    count: int
    skipped: int
    extent: int


def predict_interleave(each: Interleave, layout: str, target: Target, threads: int = 1) -> float:
    """Predicted seconds: a copy, of single elements where channels of a pixel are not together."""
    n, c, h, w = each.out
    inside, lanes = channels_inside(layout, c), target.lanes()
    rows, run = (n * c * h, w) if inside == 1 else (n * h * w * (c // inside), min(inside, each.run))
    vectors = prod(each.out) / (1 if inside > 1 and run < inside else min(lanes, run))
    work = vectors * machine.move_cycles(target) + rows * ROW_CYCLES
    size = 8 * prod(each.out)
    cycles = machine.overlapped(work, machine.stream_cycles(target, size, size))
    return machine.seconds(target, machine.CALL_CYCLES + cycles / threads_for(prod(each.out), threads))


def build_interleave(each: Interleave, layout: str, target: Target, threads: int, name: str) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are inputs and output, all stored in ``layout``."""
    threads = threads_for(prod(each.out), threads)
    shapes = {f"data{at}": stored_shape(layout, shape) for at, shape in enumerate(each.inputs)}
    function = Function(name, {**shapes, "out": stored_shape(layout, each.out)})
    with function as (*inputs, out):
        emitter = _Emitter(each, inputs, out, target.lanes())
        for rows in each.down:
            if layout == NCHW:
                emitter.planes(rows, threads)
            elif layout == NHWC:
                emitter.pixels(rows, threads)
            else:
                emitter.blocks(rows, channels_inside(layout, each.out[1]), threads)
    return function.result()


@dataclass(frozen=True)
class _Source:
    """The channels of one of the pixels that one becomes: number ``pixel`` of the ``pixels`` in ``data``."""

    data: Buffer
    pixel: Index
    pixels: int
    rows: Part
    columns: Part

    @property
    def size(self) -> int:
        """Pixels of an image."""
        return self.rows.extent * self.columns.extent

    def place(self, line: Index, column: Index) -> Index:
        """Where a pixel of all rows and columns lies among those that there are of an image."""
        return (line - self.rows.skipped) * self.columns.extent + (column - self.columns.skipped)


class _Emitter:
    """Writes the rows of one part after another."""

    def __init__(self, each: Interleave, inputs: Sequence[Buffer], out: Buffer, lanes: int) -> None:
        self.each, self.inputs, self.out, self.lanes = each, inputs, out, lanes
        step, left, width = each.steps[1], each.crop[1], each.out[3]
        # Where the input's pixels, from which all columns are wanted, begin and end.
        self.first = 1 if left else 0
        self.whole = max(0, (width + left) // step - self.first)
        self.edges = [(0, left, min(step, left + width))] if left else []
        rest = width + left - (self.first + self.whole) * step
        if rest > 0:
            self.edges.append((self.first + self.whole, 0, rest))

    def planes(self, rows: Part, threads: int) -> None:
        """NCHW: a row is its phases' rows, zipped."""
        n, c, height, columns = self.each.out
        step, left = self.each.steps[1], self.each.crop[1]
        first, count = self._rows(rows)
        with tir.loop(n * c, threads) as plane:
            image, channel = T.Bind(plane // c), T.Bind(plane % c)
            with T.serial(0, count) as turn:
                line, phase, row = self._row(rows, turn + first)
                sources = self._sources(rows, phase)
                at = [
                    T.Bind(self._channel(source, image, channel) * source.size + source.place(line, 0))
                    for source in sources
                ]
                to = T.Bind((plane * height + row) * columns)
                for pixel, begin, end in self.edges:
                    for column in range(begin, end):
                        value = sources[column].data[at[column] + pixel]
                        tir.store(self.out, value, to + (pixel * step + column - left))
                self._zip(sources, at, to)

    def _zip(self, sources: Sequence[_Source], at: Sequence[Index], to: Index) -> None:
        step, left = self.each.steps[1], self.each.crop[1]
        if not self.whole:
            return
        if step == 1:
            copy_row(self.out, to, sources[0].data, at[0], self.whole, 1, self.lanes)
            return
        width = min(self.lanes, 1 << (self.whole.bit_length() - 1))
        with T.serial(0, ceil_div(self.whole, width)) as turn:
            pixel = T.Bind(tir.least(turn * width, self.whole - width) + self.first)
            read = [
                T.Bind(source.data[tir.vector(start + pixel, width)])
                for source, start in zip(sources, at, strict=True)
            ]
            for number, value in enumerate(_zipped(read, width)):
                place = to + pixel * step + (number * width - left)
                tir.store(self.out, value, tir.vector(place, width))

    def pixels(self, rows: Part, threads: int) -> None:
        """NHWC: runs of channels, and all of a row of pixels at once where those are one run."""
        n, c, height, columns = self.each.out
        step, left, run = self.each.steps[1], self.each.crop[1], self.each.run

        def copy(sources: Sequence[_Source], at: Sequence[Index], to: Index, begin: int, end: int) -> None:
            """The columns from ``begin`` to ``end`` of a pixel, which lies at ``at`` in the sources."""
            if run == c:
                for part in self.each.right:
                    early, late = max(begin, part.first), min(end, part.first + part.count)
                    if early < late:
                        source, target = sources[early], to + (early - begin) * c
                        start = T.Bind((at[early] * source.pixels + source.pixel) * c)
                        copy_row(self.out, target, source.data, start, (late - early) * c, 1, self.lanes)
                return
            for column in range(begin, end):
                source, target = sources[column], to + (column - begin) * c
                start = T.Bind(at[column] * (c * source.pixels) + source.pixel * run)
                if run == 1:
                    copy_row(self.out, target, source.data, start, c, source.pixels, self.lanes)
                    continue
                with T.serial(0, c // run) as group:
                    here, there = T.Bind(target + group * run), T.Bind(start + group * (source.pixels * run))
                    copy_row(self.out, here, source.data, there, run, 1, self.lanes)

        first, count = self._rows(rows)
        with tir.loop(n * count, threads) as outer:
            image = T.Bind(outer // count)
            line, phase, row = self._row(rows, outer % count + first)
            sources = self._sources(rows, phase)
            at = [T.Bind(image * source.size + source.place(line, 0)) for source in sources]
            to = T.Bind((image * height + row) * (columns * c))
            for pixel, begin, end in self.edges:
                here = [start + pixel for start in at]
                copy(sources, here, to + (pixel * step + begin - left) * c, begin, end)
            with T.serial(0, self.whole) as turn:
                pixel = T.Bind(turn + self.first)
                here = [start + pixel for start in at]
                copy(sources, here, T.Bind(to + (pixel * step - left) * c), 0, step)

    def blocks(self, rows: Part, block: int, threads: int) -> None:
        """Blocks of channels, of whole runs or else channel by channel."""
        n, c, height, columns = self.each.out
        step, left = self.each.steps[1], self.each.crop[1]
        lanes = self.lanes if self.each.run % block == 0 and block % self.lanes == 0 else 1

        first, count = self._rows(rows)
        with tir.loop(n * (c // block), threads) as outer, T.serial(0, count) as number:
            image, group = T.Bind(outer // (c // block)), T.Bind(outer % (c // block))
            line, phase, row = self._row(rows, number + first)
            sources = self._sources(rows, phase)

            def copy(pixel: Index, begin: int, end: int) -> None:
                for column in range(begin, end):
                    to = T.Bind(((outer * height + row) * columns + pixel * step + (column - left)) * block)
                    source = sources[column]
                    with T.serial(0, block // lanes) as part:
                        channel = T.Bind(group * block + part * lanes)
                        # An image has whole blocks, so channels may count on through the images.
                        place = T.Bind(self._channel(source, image, channel))
                        plane = place // block * source.size + source.place(line, pixel)
                        tir.store(
                            self.out,
                            source.data[tir.vector(plane * block + place % block, lanes)],
                            tir.vector(to + part * lanes, lanes),
                        )

            for pixel, begin, end in self.edges:
                copy(pixel, begin, end)
            with T.serial(0, self.whole) as turn:
                copy(T.Bind(turn + self.first), 0, step)

    def _rows(self, part: Part) -> tuple[int, int]:
        """(the first row wanted of those that ``part`` makes, how many follow it, itself counted)."""
        step, top, height = self.each.steps[0], self.each.crop[0], self.each.out[2]

        def before(row: int) -> int:
            """Rows of the part before ``row``, counted from the first that is cut."""
            return row // step * part.count + min(max(row % step - part.first, 0), part.count)

        return before(top), before(top + height) - before(top)

    def _row(self, part: Part, number: Index) -> tuple[Index, Index, Index]:
        """(row of the inputs, which of the part's it becomes, row of the result)."""
        line, phase = T.Bind(number // part.count), T.Bind(number % part.count)
        row = line * self.each.steps[0] + phase + (part.first - self.each.crop[0])
        return line, phase, T.Bind(row)

    def _sources(self, rows: Part, phase: Index) -> list[_Source]:
        """What holds each column of a row of the part ``rows``."""
        across = self.each.right
        begin = self.each.down.index(rows) * len(across)
        return [
            _Source(self.inputs[begin + at], phase * part.count + column, rows.count * part.count, rows, part)
            for at, part in enumerate(across)
            for column in range(part.count)
        ]

    def _channel(self, source: _Source, image: Index, channel: Index) -> Index:
        """The position of ``channel`` in its data, where the images follow each other."""
        run, c = self.each.run, self.each.out[1]
        apart = (channel // run * source.pixels + source.pixel) * run + channel % run
        return image * (c * source.pixels) + apart


def _zipped(vectors: Sequence[Vector], width: int) -> list[Vector]:
    """The first elements of all vectors, then the second ones, and so on."""
    count = len(vectors)
    if width == 1 or count == 1:
        return list(vectors)
    if count % 2:
        order = [place % count * width + place // count for place in range(count * width)]
        return [shuffle(vectors, order[at : at + width]) for at in range(0, count * width, width)]
    even, odd = _zipped(vectors[::2], width), _zipped(vectors[1::2], width)
    found: list[Vector] = []
    for pair in zip(even, odd, strict=True):
        for half in (0, width // 2):
            order = [lane + side for lane in range(half, half + width // 2) for side in (0, width)]
            found.append(shuffle(pair, order))
    return found
