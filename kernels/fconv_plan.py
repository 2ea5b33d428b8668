"""The sizes that one filter-vectorised config implies for one convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kernels import machine
from kernels.fconv_source import Source
from kernels.layout import NCHW, NHWC, Layouts, layouts_of
from kernels.space import Config
from kernels.target import Target
from kernels.workload import Conv2d

TURN_CYCLES = 4
"""Turning one vector of sums from window-major to filter-major: load, shuffles, store."""
UNROLLED = 8
"""Most steps of a reduction that are unrolled."""


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

    ``split`` is empty for one thread. ``line`` and ``l2`` are the elements of a cache line and of L2.
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
        """Whether windows come from beyond L2, and no neighbour's taps fetch them."""
        return self.taps == 1 and self.conv.in_c * self.conv.in_h * self.conv.in_w > self.l2

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
    def unrolled(self) -> int:
        """Steps of the reduction that are unrolled where channels lie side by side."""
        line = math.gcd(self.channels, self.conv.in_c) if self.one_run else self.source.run
        line *= self.conv.kw if self.rows_join else 1
        return max(count for count in range(1, UNROLLED + 1) if line % count == 0)

    def real(self, tile: Any, j: int) -> int:
        """How many filters of a tile's vector ``j`` there are: fewer than lanes in the very last."""
        odd = self.conv.out_c % self.lanes
        last = isinstance(tile, int) and tile * self.vectors + j == self.vector_count - 1
        return odd if odd and last else self.lanes

    def share(self, threads: int) -> float:
        """The part of the work that the busiest thread has."""
        if self.split == "filters":
            full, odd = divmod(self.vector_count, self.vectors)
            most = max(-(-full // threads) * self.vectors, full // threads * self.vectors + odd)
            return most / self.vector_count
        if self.split == "windows":
            blocks = -(-self.windows // self.block)
            return min(1.0, -(-blocks // threads) * self.block / self.windows)
        return 1.0

    def compute_cycles(self, target: Target) -> float:
        """Cycles of the arithmetic for one image, of turning the sums, and of the padded copy."""
        steps = self.conv.in_c * self.taps
        total = 0.0
        full, odd = divmod(self.vector_count, self.vectors)
        blocks = [(self.block, self.windows // self.block), (self.windows % self.block, 1)]
        for count, times in blocks:
            for size, tiles in spread(count, self.tile_windows):
                for vectors, filter_tiles in ((self.vectors, full), (odd, 1 if odd else 0)):
                    step = machine.step_cycles(target, size, vectors)
                    sums = self.channel_sets * (machine.CALL_CYCLES + size * vectors)
                    total += times * tiles * filter_tiles * (steps * step + sums)
        squares = self.vector_count * -(-self.windows // self.lanes)
        return total + squares * TURN_CYCLES * self.lanes + self.source.copy_cycles

    def window_cycles(self, target: Target) -> float:
        """Cycles of loading windows into L1 again for another filter tile.

        A window's elements lie a plane apart, so a tile of windows takes at least a cache line for each.
        Lines are loaded again when they, and the weights that pass by, are more than L1 holds.
        """
        pitch = 4.0 * self.source.pixels.column_step
        whole_tile = 1 + (self.tile_windows - 1) * pitch / target.line_bytes
        depth = self.channels * self.conv.kh
        tile_bytes = whole_tile * depth * target.line_bytes
        weights = 4.0 * self.channels * self.taps * self.filters
        total = 0.0
        for count, times in ((self.block, self.windows // self.block), (self.windows % self.block, 1)):
            tiles = times * -(-count // self.tile_windows)
            if self.order == "ws":
                footprint = count * self.channels * pitch + weights
                shared = tile_bytes + weights <= target.l1_bytes
                lines = min(1.0, self.tile_windows * pitch / target.line_bytes) if shared else whole_tile
            else:
                footprint, lines = tile_bytes + 2 * weights, whole_tile
            size = tiles * lines * depth * target.line_bytes
            total += machine.stream_cycles(target, size, footprint)
        return total * (self.filter_tiles - 1) * self.channel_sets

    def weight_cycles(self, target: Target) -> float:
        """Cycles of loading weights again, at the distance at which each is used again."""
        blocks = -(-self.windows // self.block)
        tiles = self.windows / self.tile_windows
        weights = 4.0 * self.packed_length
        windows = 4.0 * self.conv.in_c * self.source.pixels.channel_pitch
        again = (blocks - 1) * machine.stream_cycles(target, weights, weights + windows / blocks)
        in_use = weights / (self.filter_tiles if self.order == "ws" else 1) / self.channel_sets
        return again + (tiles - blocks) * machine.stream_cycles(target, weights, in_use)
