"""The sizes that one filter-vectorised config implies for one convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from kernels.arithmetic import ceil_div
from kernels.emit.types import Index
from kernels.float.fconv.source import Source
from kernels.float.plan import ConvPlan
from kernels.knobs import Block, KnobSet
from kernels.layout import NCHW, NHWC

WEIGHT_STATIONARY, INPUT_STATIONARY = "ws", "is"
FILTERS, WINDOWS = "filters", "windows"
"""What threads share out: filter tiles or blocks of windows."""
L1_WAYS = 8
"""Lines that a set of L1 holds, on most processors."""
LONGEST_TURN = 8
"""Most steps of a reduction that are unrolled, or between two prefetches."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``block`` is windows x vectors of filters in registers; ``channels`` the channels summed at a time;
    ``order`` is ``ws`` (a filter tile stays while windows pass) or ``is`` (the other way round); ``windows``
    the windows worked on before their sums are turned and stored. ``split`` is what threads share out.
    """

    block: Block
    order: str
    channels: int
    windows: int
    split: str = ""


@dataclass(frozen=True)
class Plan(ConvPlan):
    """One config's sizes: ``tile_windows`` x ``vectors`` is the register block.

    ``by_lanes`` says that elements of windows are lanes of vectors that are loaded, not loaded one by one.
    """

    knobs: Knobs
    by_lanes: ClassVar[bool] = False

    @cached_property
    def block(self) -> int:
        """Windows worked on before their sums are stored, in whole tiles and vectors; at most all."""
        conv, lanes = self.conv, self.lanes
        step = math.lcm(self.tile_windows, lanes)
        block = ceil_div(self.knobs.windows, step) * step
        if self.split == WINDOWS:
            # As many blocks for each thread, as even as can be.
            each = ceil_div(conv.windows, self.threads)
            block = ceil_div(each, ceil_div(each, block))
            block = ceil_div(block, lanes) * lanes if block > 8 * lanes else block
        return min(block, conv.windows)

    @property
    def tile_windows(self) -> int:
        """Windows of a full tile."""
        return self.knobs.block[0]

    @property
    def vectors(self) -> int:
        """Vectors of filters of a full tile."""
        return self.knobs.block[1]

    @property
    def split(self) -> str:
        """What threads share out; empty for one thread."""
        return self.knobs.split if self.threads > 1 else ""

    @property
    def filters(self) -> int:
        """Filters of a full tile."""
        return self.vectors * self.lanes

    @property
    def vector_count(self) -> int:
        """Vectors that hold all filters."""
        return ceil_div(self.conv.out_c, self.lanes)

    @property
    def filter_tiles(self) -> int:
        """Tiles of filters, with the narrower last one."""
        return ceil_div(self.vector_count, self.vectors)

    @property
    def channel_sets(self) -> int:
        """Sets of ``channels`` channels, with the smaller last one."""
        return ceil_div(self.conv.in_c, self.knobs.channels)

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights; the last vector of filters is filled up with zeros."""
        return self.vector_count * self.lanes * self.conv.in_c * self.conv.taps

    @property
    def source(self) -> Source:
        """Where windows are read."""
        return Source(self.conv, self.layouts.data)

    @property
    def fetches_windows(self) -> bool:
        """Whether windows come from beyond L2, no neighbour's taps fetch them, and L1 has room for them.

        Pixels of many channels fall into a few sets of L1, which hold a tile's but not the next one's too.
        """
        if self.conv.taps > 1 or self.conv.in_c * self.conv.in_h * self.conv.in_w * 4 <= self.target.l2_bytes:
            return False
        pixel = self.source.run * self.source.pixels.column_step
        one_way = self.target.l1_bytes // 4 // L1_WAYS
        return 2 * self.tile_windows * math.gcd(pixel, one_way) < self.target.l1_bytes // 4

    @property
    def fetches_out(self) -> bool:
        """Whether the output, and a residual, come from beyond L2."""
        return self.conv.out_c * self.conv.windows * 4 > self.target.l2_bytes

    @property
    def turned(self) -> bool:
        """Whether sums are turned to NCHW; vectors of them are stored as they are in other layouts."""
        return self.layouts.out == NCHW

    @property
    def one_run(self) -> bool:
        """Whether all channels of a set lie side by side."""
        return self.layouts.data == NHWC

    @property
    def rows_join(self) -> bool:
        """Whether what a row of taps reads lies side by side: in blocks, or all channels of NHWC."""
        whole = not self.one_run or self.channel_sets == 1
        return self.conv.kw > 1 and self.conv.dilation[1] == 1 and whole

    @property
    def turn(self) -> int:
        """Steps of the reduction a turn of the innermost loop where channels lie side by side."""
        line = math.gcd(self.knobs.channels, self.conv.in_c) if self.one_run else self.source.run
        line *= self.conv.kw if self.rows_join else 1
        each = self.lanes if self.by_lanes else 1
        return max(count for count in range(each, LONGEST_TURN + each, each) if line % count == 0)

    def real(self, tile: Index, j: int) -> int:
        """How many filters of a tile's vector ``j`` there are: fewer than lanes in the very last."""
        odd = self.conv.out_c % self.lanes
        last = isinstance(tile, int) and tile * self.vectors + j == self.vector_count - 1
        return odd if odd and last else self.lanes
