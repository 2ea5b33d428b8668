"""The sizes that one SConv config implies for one convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.emit import shares, tir
from kernels.emit.padding import InputLayout
from kernels.emit.types import Index
from kernels.float.plan import ConvPlan
from kernels.float.sconv.csa import INPUT_STATIONARY, WEIGHT_STATIONARY, Slicing
from kernels.float.sconv.micro import VectorProducts
from kernels.knobs import Block, KnobSet
from kernels.workload.base import Conv2d

LONGEST_UNROLL = 9
"""Taps of a filter that are unrolled whole; of larger filters only the rows are."""
CROWDED = range(24, 33)
"""Vectors of sums with which rows are not, as LLVM would spill: blocks that fill AArch64's 32 registers. With
x86's 16 and Power's 64 it does not, and there loops cost more than they save."""

SHIFTED = 2
"""The value of ``pack`` that stands for section 6.2."""
AHEAD = 4
"""Tiles of windows that are packed together where that saves lines; each is a stream that is written."""
SPLITS = ("windows", "filters", "both")
"""What threads can share out: tiles of windows, tiles of filters, or a grid of both."""


def can_shift(conv: Conv2d, lanes: int) -> bool:
    """Whether a window's neighbour is its next tap, and the last tap of a row still within two vectors."""
    return conv.stride[1] == 1 and 0 < (conv.kw - 1) * conv.dilation[1] <= lanes


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``block`` is the register block, n_f filters x n_win / lanes vectors of windows; ``order`` is ``is`` or
    ``ws``; ``channels`` is n_c; ``k2_halvings`` and ``k3_halvings`` are how often k2 and k3 are halved from
    all tiles, as the analysis does; ``pack`` is 0 when windows are read where they are, 1 when each tap's are
    copied, 2 when a row of taps is made of two vectors by shifts (``SHIFTED``); ``split`` says which tiles
    threads share out, those of ``windows``, ``filters`` or ``both``.
    """

    block: Block
    order: str
    channels: int
    k2_halvings: int
    k3_halvings: int
    pack: int
    split: str = SPLITS[0]


@dataclass(frozen=True)
class Plan(ConvPlan):
    """One config's sizes: ``width`` windows make an IN tile, the last ``tail`` windows a narrower one.

    ``products`` is the micro-kernel.
    """

    knobs: Knobs
    products: type[VectorProducts] = VectorProducts

    def why_not(self) -> str | None:
        """Why this cannot be generated, or None when it can."""
        if not self.packed and not self.straight:
            return "windows that are read in place must not cross rows within a vector"
        if self.shifted and not can_shift(self.conv, self.lanes):
            return "taps of a row are not side by side within two vectors"
        if not self.k2 or not self.k3:
            return "there are too few tiles to halve them that often"
        if self.parts[1] > 1 and (self.parts[0] > self.window_tiles or self.parts[1] > self.filter_tiles):
            return "there are too few tiles for every thread to get one"
        return None

    @property
    def parts(self) -> tuple[int, int]:
        """Into how many shares threads divide the window tiles and the filter tiles."""
        return shares.parts(self.threads, self.knobs.split, SPLITS)

    @property
    def filters(self) -> int:
        """Filters of a full FS tile."""
        return self.knobs.block[0]

    @property
    def vectors(self) -> int:
        """Vectors of windows of a full IN tile."""
        return self.knobs.block[1]

    @property
    def packed(self) -> bool:
        """Whether windows are packed before they are read."""
        return self.knobs.pack > 0

    @property
    def shifted(self) -> bool:
        """Whether taps are packed by shifts."""
        return self.knobs.pack == SHIFTED

    @property
    def slicing(self) -> Slicing:
        """The tiling strategy that it stands for."""
        return Slicing(
            self.conv,
            self.target,
            self.filters,
            self.width,
            self.knobs.order,
            self.knobs.channels,
            self.k2,
            self.k3,
            self.packed,
        )

    @property
    def ahead(self) -> frozenset[str]:
        """What is prefetched for the next micro-kernel: ``windows``, ``results``.

        It is what lies in rows a plane apart, which no hardware prefetcher finds, and not in a near cache:
        windows that are read in place when they come from beyond L1, unless other taps have used them just
        now; results when they have left L2.
        """
        if not self.products.prefetches:
            return frozenset()
        data, out = (4 * math.prod(shape[1:]) for shape in (self.conv.data_shape, self.conv.out_shape))
        windows = not self.packed and self.conv.taps == 1 and data > self.target.l1_bytes
        return frozenset(["windows"] * windows + ["results"] * (out > self.target.l2_bytes))

    @property
    def k2(self) -> int:
        """Tiles of the moving kind that stay in L2."""
        return self._tiles(still=False) >> self.knobs.k2_halvings

    @property
    def k3(self) -> int:
        """Tiles of the stationary kind that stay in L3."""
        return self._tiles(still=True) >> self.knobs.k3_halvings

    def _tiles(self, still: bool) -> int:
        windows_still = self.knobs.order == INPUT_STATIONARY
        return self.window_tiles if still == windows_still else self.filter_tiles

    @property
    def window_tiles(self) -> int:
        """IN tiles, with the narrower last one."""
        return ceil_div(self.conv.windows, self.width)

    @property
    def width(self) -> int:
        """Windows of a full IN tile."""
        return self.vectors * self.lanes

    @property
    def full_tiles(self) -> int:
        """IN tiles of full width."""
        return self.conv.windows // self.width

    @property
    def tail(self) -> int:
        """Windows that are left for a narrower tile."""
        return self.conv.windows % self.width

    @property
    def tail_vectors(self) -> int:
        """Vectors that hold the tail's windows."""
        return ceil_div(self.tail, self.lanes)

    @property
    def tail_start(self) -> int:
        """The tail's first window: moved back so that its last vector ends with the last window."""
        return max(0, self.conv.windows - self.tail_vectors * self.lanes)

    @property
    def tail_overhangs(self) -> bool:
        """Whether there are too few windows to move the tail back."""
        return self.conv.windows < self.tail_vectors * self.lanes

    @property
    def filter_tiles(self) -> int:
        """FS tiles, with the smaller last one."""
        return ceil_div(self.conv.out_c, self.filters)

    @property
    def full_filters(self) -> int:
        """FS tiles of full size."""
        return self.conv.out_c // self.filters

    @property
    def odd_filters(self) -> int:
        """Filters of the smaller last tile."""
        return self.conv.out_c % self.filters

    @property
    def filter_share(self) -> int:
        """The most full FS tiles that one thread computes."""
        return max(full for full, _ in self.filter_shares)

    @property
    def filter_shares(self) -> list[tuple[int, int]]:
        """Full and smaller FS tiles of every thread, those that are the same once."""
        return shares.sizes(self.full_filters, self.odd_filters > 0, self.parts[1])

    @property
    def channel_sets(self) -> int:
        """Sets of ``channels`` channels, with the smaller last one."""
        return ceil_div(self.conv.in_c, self.knobs.channels)

    @property
    def sums_apart(self) -> bool:
        """Whether sums wait for the next channel set in lines of their own, a tile's side by side.

        Where they wait in the output, each filter's are a line of another plane, which no prefetcher finds.
        """
        return self.channel_sets > 1 and not self.products.prefetches

    @property
    def depth(self) -> int:
        """Products an output element gets from one full channel set."""
        return self.knobs.channels * self.conv.taps

    @property
    def unrolls_rows(self) -> bool:
        """Whether the rows of a filter are unrolled where windows are read in place."""
        crowded = self.products.crowds and self.filters * self.vectors in CROWDED
        return self.conv.taps <= LONGEST_UNROLL and not crowded

    def set_channels(self, channel_set: Index) -> Index:
        """Channels of one set: the last may have fewer."""
        if self.conv.in_c % self.knobs.channels == 0:
            return self.knobs.channels
        return tir.least(self.knobs.channels, self.conv.in_c - channel_set * self.knobs.channels)

    @property
    def slots(self) -> int:
        """How many packed IN tiles a thread keeps."""
        tiles = max(1, self.full_tiles)
        if self.knobs.order == WEIGHT_STATIONARY:
            return min(self.k2, tiles)
        return min(self.k3, tiles) if self.filter_share > self.k2 else min(self.packed_ahead, tiles)

    @property
    def packed_ahead(self) -> int:
        """How many tiles are packed channel by channel: neighbours lie in the same lines of a plane.

        One where products hide what those lines take, or where tiles are not simply side by side.
        """
        side_by_side = self.conv.taps == 1 and InputLayout(self.conv).flat
        return AHEAD if side_by_side and not self.products.hides_loads else 1

    @property
    def pack_slack(self) -> int:
        """Elements past the last packed tile that packing may write."""
        return 2 * self.width + 2 * self.lanes

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights; the last filter tile is filled up with zeros."""
        return self.filter_tiles * self.filters * self.conv.in_c * self.conv.taps

    @property
    def straight(self) -> bool:
        """Whether every vector of windows is contiguous in the input's layout."""
        return InputLayout(self.conv).flat or self.conv.out_w % self.lanes == 0

    @property
    def layout(self) -> InputLayout:
        """The input as this config reads it."""
        exact = self.straight and not self.tail_overhangs and not self.shifted
        return InputLayout(self.conv, 0 if exact else self.width + 2 * self.lanes)

    @property
    def packing_moves(self) -> int:
        """Vectors copied for one tap of a full IN tile: more than it holds when they cross rows."""
        if self.straight:
            return self.vectors
        width = self.conv.out_w
        return (1 + ceil_div(self.width - 1, width)) * ceil_div(min(width, self.width), self.lanes)

    def moved_together(self, vectors: int) -> int:
        """How many vectors of a tile of ``vectors`` are packed at once: two where an instruction can.

        Where rows are of whole vectors, pairs of these must not cross rows.
        """
        pair = self.products.moves
        rows = not self.straight or InputLayout(self.conv).flat or self.conv.out_w % (pair * self.lanes) == 0
        return pair if rows and not self.shifted and not (self.straight and vectors % pair) else 1

    @property
    def packing_passes(self) -> int:
        """How often each IN tile is packed: again for every set of filters when weights are stationary."""
        return ceil_div(self.filter_tiles, self.k3) if self.knobs.order == WEIGHT_STATIONARY else 1
