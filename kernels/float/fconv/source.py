"""Where the filter-vectorised convolution reads its windows, in every layout: the data, or a padded copy."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.arithmetic import inside
from kernels.emit import tir
from kernels.emit.padding import InputLayout, emit_copy
from kernels.emit.row_copy import copy_row
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index
from kernels.layout import NCHW, NHWC, block_of
from kernels.workload.base import Conv2d


@dataclass(frozen=True)
class Source:
    """Where a window's elements are. All offsets are in elements, all pitches too unless they say pixels.

    A pixel is a row's element with the channels that lie beside it: one in NCHW, a block, or all in NHWC.
    """

    conv: Conv2d
    layout: str

    @property
    def run(self) -> int:
        """Neighbouring channels that lie side by side: the elements of a pixel."""
        if self.layout == NCHW:
            return 1
        return self.conv.in_c if self.layout == NHWC else block_of(self.layout) or 1

    @property
    def pixels(self) -> InputLayout:
        """Where pixels are in a plane; nothing past the end is read, as they are read one by one."""
        return InputLayout(self.conv, split=False)

    @property
    def copied(self) -> bool:
        """Whether windows are read from a padded copy of an image."""
        return self.pixels.copied

    @property
    def plane(self) -> int:
        """Elements of one plane of pixels."""
        return self.pixels.channel_pitch * self.run

    @property
    def elements(self) -> int:
        """Size of one image as it is read."""
        return self.conv.in_c * self.pixels.channel_pitch

    @property
    def tap_row(self) -> int:
        """From a filter's row to its next."""
        return self.pixels.tap_pitch * self.run

    @property
    def tap(self) -> int:
        """From a tap to the next of its row."""
        return self.conv.dilation[1] * self.run

    def window(self, w: Index) -> Index:
        """Where window ``w`` (counted along rows of the output) starts in its plane."""
        return self.pixels.window(w) * self.run

    def channel(self, c: Index) -> Index:
        """Where channel ``c``, the first of a run unless there is one run only, starts in an image."""
        return c if self.layout == NHWC else c * self.pixels.channel_pitch

    @property
    def copy_cycles(self) -> float:
        """Roughly what the copy of one image costs."""
        return self.pixels.copy_cycles

    def emit_copy(self, lanes: int, data: Buffer, copy: Buffer, image: Index, threads: int) -> None:
        """Fill ``copy`` (of ``elements``) from image number ``image`` of ``data``."""
        if self.layout == NCHW:
            emit_copy(self.pixels, lanes, data, copy, image, threads)
            return
        conv, pixels, run = self.conv, self.pixels, self.run
        step = conv.stride[0] if conv.kh == 1 else 1  # a filter of one row skips rows
        first_row, last_row = inside(conv.pad[0], step, pixels.rows, conv.in_h)
        first, last = inside(conv.pad[1], 1, pixels.columns, conv.in_w)
        with tir.loop(conv.in_c // run * pixels.rows, threads) as line:
            target = T.Bind(line * (pixels.columns * run))
            plane, row = T.Bind(line // pixels.rows), T.Bind(line % pixels.rows)

            def inner() -> None:
                source = (image * (conv.in_c // run) + plane) * conv.in_h + row * step - conv.pad[0]
                start = T.Bind((source * conv.in_w + first - conv.pad[1]) * run)
                _zero(copy, target, first * run, lanes)
                copy_row(copy, T.Bind(target + first * run), data, start, (last - first) * run, 1, lanes)
                _zero(copy, target + last * run, (pixels.columns - last) * run, lanes)

            def outer() -> None:
                _zero(copy, target, pixels.columns * run, lanes)

            within = first_row <= 0 and last_row >= pixels.rows
            condition = None if within else tirx.And(row >= first_row, row < last_row)
            tir.choose(condition, inner, outer)


def _zero(buffer: Buffer, start: Index, count: int, lanes: int) -> None:
    """Zeros by whole vectors, then one by one."""
    whole = count // lanes
    if whole:
        with tir.loop(whole) as i:
            tir.store(buffer, tir.zeros(lanes), tir.vector(start + i * lanes, lanes))
    for i in range(whole * lanes, count):
        tir.store(buffer, tir.number(0.0), start + i)
