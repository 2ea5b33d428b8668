"""Channels spread over the pixels of a larger image, in every layout, as after a transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm.script.ir_builder import tirx as T

from kernels.arithmetic import ceil_div
from kernels.emit import machine, tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.row_copy import copy_row
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
    """

    shape: tuple[int, ...]
    out: tuple[int, ...]
    steps: tuple[int, int]
    run: int
    crop: tuple[int, int] = (0, 0)

    @property
    def pixels(self) -> int:
        """Pixels that one becomes."""
        return prod(self.steps)


def predict_interleave(each: Interleave, layout: str, target: Target, threads: int = 1) -> float:
    """Predicted seconds: a copy, of single elements where channels of a pixel are not together."""
    n, c, h, w = each.out
    inside, lanes = channels_inside(layout, c), target.lanes()
    rows, run = (n * c * h, w) if inside == 1 else (n * h * w * (c // inside), min(inside, each.run))
    vectors = prod(each.out) / (1 if inside > 1 and run < inside else min(lanes, run))
    work = vectors * machine.MOVE_CYCLES + rows * ROW_CYCLES
    size = 8 * prod(each.out)
    cycles = machine.overlapped(work, machine.stream_cycles(target, size, size))
    return machine.seconds(machine.CALL_CYCLES + cycles / threads_for(prod(each.out), threads))


def build_interleave(each: Interleave, layout: str, target: Target, threads: int, name: str) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are input and output, both stored in ``layout``."""
    threads = threads_for(prod(each.out), threads)
    shapes = {"data": stored_shape(layout, each.shape), "out": stored_shape(layout, each.out)}
    function = Function(name, shapes)
    with function as (data, out):
        emitter = _Emitter(each, data, out, target.lanes())
        if layout == NCHW:
            emitter.planes(threads)
        elif layout == NHWC:
            emitter.pixels(threads)
        else:
            emitter.blocks(channels_inside(layout, each.out[1]), threads)
    return function.result()


class _Emitter:
    def __init__(self, each: Interleave, data: Buffer, out: Buffer, lanes: int) -> None:
        self.each, self.data, self.out, self.lanes = each, data, out, lanes
        step, left, width = each.steps[1], each.crop[1], each.out[3]
        # Where the input's pixels, from which all columns are wanted, begin and end.
        self.first = 1 if left else 0
        self.whole = max(0, (width + left) // step - self.first)
        self.edges = [(0, left, min(step, left + width))] if left else []
        rest = width + left - (self.first + self.whole) * step
        if rest > 0:
            self.edges.append((self.first + self.whole, 0, rest))

    def planes(self, threads: int) -> None:
        """NCHW: a row is its phases' rows, zipped."""
        (_, deep, h, w), (n, c, rows, columns) = self.each.shape, self.each.out
        step, left = self.each.steps[1], self.each.crop[1]
        apart = self.each.run * h * w
        with tir.loop(n * c, threads) as plane:
            image, channel = T.Bind(plane // c), T.Bind(plane % c)
            start = T.Bind((image * deep + self._channel(channel, 0)) * (h * w))
            with T.serial(0, rows) as row:
                line, phase = self._row(row)
                at = T.Bind(start + phase * (step * apart) + line * w)
                to = T.Bind((plane * rows + row) * columns)
                for pixel, begin, end in self.edges:
                    for column in range(begin, end):
                        value = self.data[at + column * apart + pixel]
                        tir.store(self.out, value, to + (pixel * step + column - left))
                self._zip(at, to, apart)

    def _zip(self, at: Index, to: Index, apart: int) -> None:
        step, left = self.each.steps[1], self.each.crop[1]
        if not self.whole:
            return
        if step == 1:
            copy_row(self.out, to, self.data, at, self.whole, 1, self.lanes)
            return
        width = min(self.lanes, 1 << (self.whole.bit_length() - 1))
        with T.serial(0, ceil_div(self.whole, width)) as turn:
            pixel = T.Bind(tir.least(turn * width, self.whole - width) + self.first)
            read = [T.Bind(self.data[tir.vector(at + i * apart + pixel, width)]) for i in range(step)]
            for number, value in enumerate(_zipped(read, width)):
                place = to + pixel * step + (number * width - left)
                tir.store(self.out, value, tir.vector(place, width))

    def pixels(self, threads: int) -> None:
        """NHWC: runs of channels, and all of a row of pixels at once where those are one run."""
        (_, deep, h, w), (n, c, rows, columns) = self.each.shape, self.each.out
        step, left = self.each.steps[1], self.each.crop[1]
        run, pixels = self.each.run, self.each.pixels

        def copy(source: Index, to: Index, phase: Index, begin: int, end: int) -> None:
            if run == c:
                start, count = source + (phase * step + begin) * c, (end - begin) * c
                copy_row(self.out, to, self.data, start, count, 1, self.lanes)
                return
            for column in range(begin, end):
                start, target = T.Bind(source + (phase * step + column) * run), to + (column - begin) * c
                if run == 1:
                    copy_row(self.out, target, self.data, start, c, pixels, self.lanes)
                    continue
                with T.serial(0, c // run) as group:
                    here, there = T.Bind(target + group * run), T.Bind(start + group * (pixels * run))
                    copy_row(self.out, here, self.data, there, run, 1, self.lanes)

        with tir.loop(n * rows, threads) as outer:
            image, row = T.Bind(outer // rows), T.Bind(outer % rows)
            line, phase = self._row(row)
            start, to = T.Bind((image * h + line) * (w * deep)), T.Bind(outer * (columns * c))
            for pixel, begin, end in self.edges:
                copy(start + pixel * deep, to + (pixel * step + begin - left) * c, phase, begin, end)
            with T.serial(0, self.whole) as turn:
                pixel = T.Bind(turn + self.first)
                copy(T.Bind(start + pixel * deep), T.Bind(to + (pixel * step - left) * c), phase, 0, step)

    def blocks(self, block: int, threads: int) -> None:
        """Blocks of channels, of whole runs or else channel by channel."""
        (_, deep, h, w), (n, c, rows, columns) = self.each.shape, self.each.out
        step, left = self.each.steps[1], self.each.crop[1]
        lanes = self.lanes if self.each.run % block == 0 and block % self.lanes == 0 else 1

        with tir.loop(n * (c // block), threads) as outer, T.serial(0, rows) as row:
            image, group = T.Bind(outer // (c // block)), T.Bind(outer % (c // block))
            line, phase = self._row(row)

            def copy(pixel: Index, begin: int, end: int) -> None:
                for column in range(begin, end):
                    to = T.Bind(((outer * rows + row) * columns + pixel * step + (column - left)) * block)
                    with T.serial(0, block // lanes) as part:
                        channel = T.Bind(group * block + part * lanes)
                        source = T.Bind(self._channel(channel, phase * step + column))
                        plane = (image * (deep // block) + source // block) * h + line
                        at = T.Bind((plane * w + pixel) * block + source % block)
                        tir.store(
                            self.out,
                            self.data[tir.vector(at, lanes)],
                            tir.vector(to + part * lanes, lanes),
                        )

            for pixel, begin, end in self.edges:
                copy(pixel, begin, end)
            with T.serial(0, self.whole) as turn:
                copy(T.Bind(turn + self.first), 0, step)

    def _row(self, row: Index) -> tuple[Index, Index]:
        """(row of the input, which of the rows that it becomes)."""
        step, top = self.each.steps[0], self.each.crop[0]
        return T.Bind((row + top) // step), T.Bind((row + top) % step)

    def _channel(self, channel: Index, phase: Index) -> Index:
        """Where the input has ``channel`` of the pixel ``phase``."""
        run = self.each.run
        return (channel // run * self.each.pixels + phase) * run + channel % run


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
