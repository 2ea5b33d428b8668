"""The sizes that one filter-vectorised config implies for one convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kernels.fconv_source import Source
from kernels.layout import NCHW, NHWC, Layouts, layouts_of
from kernels.space import Config
from kernels.target import Target
from kernels.workload import Conv2d

L1_WAYS = 8
"""Lines that a set of L1 holds, on most processors."""
LONGEST_TURN = 8
"""Most steps of a reduction that are unrolled, or between two prefetches."""


def spread(count: int, most: int) -> list[tuple[int, int]]:
    """(size, how many) of the fewest tiles of at most ``most`` that hold ``count``, as even as can be."""
    if count == 0:
        return []
    tiles = -(-count // most)
    size, larger = divmod(count, tiles)
    return [(size + 1, larger), (size, tiles - larger)] if larger else [(size, tiles)]


@dataclass(frozen=True)
class FilterPlan:
    """One config's sizes: ``tile_windows`` x ``vectors`` is the register block.

    ``split`` is empty for one thread. ``line``, ``l1`` and ``l2`` are elements of a cache line and of caches.
    """

    conv: Conv2d
    lanes: int
    tile_windows: int
    vectors: int
    order: str
    channels: int
    block: int
    layouts: Layouts
    split: str
    line: int
    l1: int
    l2: int

    @classmethod
    def of(cls, conv: Conv2d, config: Config, target: Target, threads: int = 1) -> FilterPlan:
        """Read a config of ``FilterConv``."""
        tile_windows, vectors = (int(part) for part in str(config["block"]).split("x"))
        lanes = target.lanes()
        windows = conv.out_h * conv.out_w
        step = math.lcm(tile_windows, lanes)
        block = -(-config.int("windows") // step) * step
        split = str(config["split"]) if threads > 1 else ""
        if split == "windows":
            # As many blocks for each thread, as even as can be.
            each = -(-windows // threads)
            block = -(-each // -(-each // block))
            block = -(-block // lanes) * lanes if block > 8 * lanes else block
        return cls(
            conv,
            lanes,
            tile_windows,
            vectors,
            str(config["order"]),
            config.int("channels"),
            windows if block >= windows else block,
            layouts_of(config),
            split,
            target.line_bytes // 4,
            target.l1_bytes // 4,
            target.l2_bytes // 4,
        )

    @property
    def taps(self) -> int:
        """Filter elements a channel."""
        return self.conv.kh * self.conv.kw

    @property
    def windows(self) -> int:
        """Windows of one image: output elements a channel."""
        return self.conv.out_h * self.conv.out_w

    @property
    def filters(self) -> int:
        """Filters of a full tile."""
        return self.vectors * self.lanes

    @property
    def vector_count(self) -> int:
        """Vectors that hold all filters."""
        return -(-self.conv.out_c // self.lanes)

    @property
    def filter_tiles(self) -> int:
        """Tiles of filters, with the narrower last one."""
        return -(-self.vector_count // self.vectors)

    @property
    def channel_sets(self) -> int:
        """Sets of ``channels`` channels, with the smaller last one."""
        return -(-self.conv.in_c // self.channels)

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights; the last vector of filters is filled up with zeros."""
        return self.vector_count * self.lanes * self.conv.in_c * self.taps

    @property
    def source(self) -> Source:
        """Where windows are read."""
        return Source(self.conv, self.layouts.data)

    @property
    def fetches_windows(self) -> bool:
        """Whether windows come from beyond L2, no neighbour's taps fetch them, and L1 has room for them.

        Pixels of many channels fall into a few sets of L1, which hold a tile's but not the next one's too.
        """
        if self.taps > 1 or self.conv.in_c * self.conv.in_h * self.conv.in_w <= self.l2:
            return False
        pixel = self.source.run * self.source.pixels.column_step
        one_way = self.l1 // L1_WAYS
        return 2 * self.tile_windows * math.gcd(pixel, one_way) < self.l1

    @property
    def fetches_out(self) -> bool:
        """Whether the output, and a residual, come from beyond L2."""
        return self.conv.out_c * self.windows > self.l2

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
        line = math.gcd(self.channels, self.conv.in_c) if self.one_run else self.source.run
        line *= self.conv.kw if self.rows_join else 1
        return max(count for count in range(1, LONGEST_TURN + 1) if line % count == 0)

    def real(self, tile: Any, j: int) -> int:
        """How many filters of a tile's vector ``j`` there are: fewer than lanes in the very last."""
        odd = self.conv.out_c % self.lanes
        last = isinstance(tile, int) and tile * self.vectors + j == self.vector_count - 1
        return odd if odd and last else self.lanes
