"""Images that follow each other, beside each other as channels: what a convolution over depth sums over."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from kernels.emit import machine, tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.row_copy import copy_row
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, PrimFunc
from kernels.layout import NHWC, stored_shape
from kernels.operators.relayout import channels_inside
from kernels.target import Target

ROW_CYCLES = 8
"""Starting the copy of a run of channels."""


@dataclass(frozen=True)
class Frames:
    """``out`` volumes of ``shape`` (NCHW): image i of a volume has images i * stride + t * dilation - pad.

    ``volumes`` is how many there are in the batch; t is one of ``taps``. The channels of the result are, for
    each of ``groups``, its channels of the first tap, then of the next; those of images before the first and
    after the last are zero.
    """

    shape: tuple[int, ...]
    volumes: int
    depth: int
    taps: int
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    groups: int = 1

    @property
    def out(self) -> tuple[int, ...]:
        """NCHW shape of the result: ``depth`` images a volume."""
        _, c, h, w = self.shape
        return (self.volumes * self.depth, self.taps * c, h, w)


def predict_frames(each: Frames, layout: str, target: Target, threads: int = 1) -> float:
    """Predicted seconds: a copy, in NHWC by runs of channels."""
    n, c, h, w = each.out
    inside, lanes, run = channels_inside(layout, c), target.lanes(), each.shape[1] // each.groups
    runs = n * h * w * each.taps * each.groups if layout == NHWC else n * each.taps * each.groups
    together = inside == 1 or run >= min(inside, lanes)
    work = prod(each.out) / (lanes if together else 1) * machine.move_cycles(target) + runs * ROW_CYCLES
    size = 4 * (prod(each.shape) + prod(each.out))
    cycles = machine.overlapped(work, machine.stream_cycles(target, size, size))
    return machine.seconds(target, machine.CALL_CYCLES + cycles / threads_for(prod(each.out), threads))


def build_frames(each: Frames, layout: str, target: Target, threads: int, name: str) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are input and output, both stored in ``layout``."""
    threads = threads_for(prod(each.out), threads)
    shapes = {"data": stored_shape(layout, each.shape), "out": stored_shape(layout, each.out)}
    function = Function(name, shapes)
    with function as (data, out):
        _emit(each, layout, data, out, target.lanes(), threads)
    return function.result()


def _emit(each: Frames, layout: str, data: Buffer, out: Buffer, lanes: int, threads: int) -> None:
    n, c, h, w = each.shape
    before, pixels, run = n // each.volumes, h * w, c // each.groups
    block = channels_inside(layout, c)
    with tir.loop(each.volumes * each.depth * each.taps, threads) as outer:
        image, tap = T.Bind(outer // each.taps), T.Bind(outer % each.taps)
        volume, place = T.Bind(image // each.depth), T.Bind(image % each.depth)
        at = T.Bind(place * each.stride + tap * each.dilation - each.pad)
        source, to = T.Bind((volume * before + at) * (c * pixels)), T.Bind(image * (each.taps * c * pixels))
        inside = tirx.all(at >= 0, at < before)
        with T.serial(0, each.groups) as group:
            read, write = group * run, (group * each.taps + tap) * run
            if layout == NHWC:
                with T.serial(0, pixels) as pixel:
                    target = T.Bind(to + pixel * (each.taps * c) + write)
                    _copy(out, target, data, T.Bind(source + pixel * c + read), run, inside, lanes)
            elif run % block == 0:
                target = T.Bind(to + write * pixels)
                _copy(out, target, data, T.Bind(source + read * pixels), run * pixels, inside, lanes)
            else:
                # A block has channels of several taps.
                with T.serial(0, run) as channel, T.serial(0, pixels) as pixel:
                    near, far = T.Bind(read + channel), T.Bind(write + channel)
                    start = T.Bind(source + (near // block * pixels + pixel) * block + near % block)
                    target = T.Bind(to + (far // block * pixels + pixel) * block + far % block)
                    _copy(out, target, data, start, 1, inside, 1)


def _copy(out: Buffer, to: Index, data: Buffer, source: Index, count: int, inside: Index, lanes: int) -> None:
    """Copy ``count`` elements, or write zeros in their place."""

    def zeros() -> None:
        width = min(lanes, 1 << (count.bit_length() - 1))
        with T.serial(0, -(-count // width)) as turn:
            tir.store(out, tir.zeros(width), tir.vector(to + tir.least(turn * width, count - width), width))

    tir.choose(inside, lambda: copy_row(out, to, data, source, count, 1, lanes), zeros)
