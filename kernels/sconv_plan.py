"""The sizes that one SConv config implies for one convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernels import machine, mma, shares, tir
from kernels.csa import INPUT_STATIONARY, WEIGHT_STATIONARY
from kernels.padding import InputLayout
from kernels.space import Config
from kernels.target import Target
from kernels.workload import Conv2d

LONGEST_UNROLL = 9
"""Taps of a filter that are unrolled whole; of larger filters only the rows are."""
CROWDED = range(24, 33)
"""Vectors of sums with which rows are not, as LLVM would spill: blocks that fill AArch64's 32 registers. With
x86's 16 and Power's 64 it does not, and there loops cost more than they save."""

MATRIX_SCONV = "sconv_mma"
"""The family whose micro-kernel is the matrix unit's."""

SPLITS = ("windows", "filters", "both")
"""What threads can share out: tiles of windows, tiles of filters, or a grid of both."""


def ceil_div(value: int, divisor: int) -> int:
    """``value / divisor`` rounded up."""
    return -(-value // divisor)


def _prefetched(conv: Conv2d, packed: bool, target: Target) -> frozenset[str]:
    """What lies in rows a plane apart, which no hardware prefetcher finds, and not in a near cache.

    Windows that are read in place when they come from beyond L1, unless other taps have used them just now;
    results when they have left L2.
    """
    data, out = 4 * conv.in_c * conv.in_h * conv.in_w, 4 * conv.out_c * conv.out_h * conv.out_w
    windows = not packed and conv.kh * conv.kw == 1 and data > target.l1_bytes
    return frozenset(["windows"] * windows + ["results"] * (out > target.l2_bytes))


@dataclass(frozen=True)
class Plan:
    """One config's sizes: ``width`` windows make an IN tile, the last ``tail`` windows a narrower one.

    With ``matrix`` the micro-kernel's sums are in the matrix unit, and ``lanes`` is ``mma.SIDE``. ``parts``
    says into how many shares threads divide the window tiles and the filter tiles. ``line`` is the elements
    of a cache line; ``ahead`` says what is prefetched for the next micro-kernel: ``windows``, ``results``.
    """

    conv: Conv2d
    lanes: int
    filters: int
    vectors: int
    order: str
    channels: int
    k2_halvings: int
    k3_halvings: int
    packed: bool
    matrix: bool
    parts: tuple[int, int]
    line: int
    ahead: frozenset[str]

    @classmethod
    def of(cls, conv: Conv2d, config: Config, target: Target, threads: int = 1) -> Plan:
        """Read a config of ``SConv``."""
        filters, vectors = (int(part) for part in str(config["block"]).split("x"))
        packed, matrix = bool(config.int("pack")), config.kernel == MATRIX_SCONV
        parts = {"windows": (threads, 1), "filters": (1, threads), "both": shares.grid(threads)}
        return cls(
            conv,
            target.lanes(),
            filters,
            vectors,
            str(config["order"]),
            config.int("channels"),
            config.int("k2_halvings"),
            config.int("k3_halvings"),
            packed,
            matrix,
            (1, 1) if threads == 1 else parts[str(config["split"])],
            target.line_bytes // 4,
            frozenset() if matrix else _prefetched(conv, packed, target),
        )

    def why_not(self) -> str | None:
        """Why this cannot be generated, or None when it can."""
        if not self.packed and not self.straight:
            return "windows that are read in place must not cross rows within a vector"
        if not self.k2 or not self.k3:
            return "there are too few tiles to halve them that often"
        if self.parts[1] > 1 and (self.parts[0] > self.window_tiles or self.parts[1] > self.filter_tiles):
            return "there are too few tiles for every thread to get one"
        return None

    @property
    def threads(self) -> int:
        """How many threads share the work."""
        return self.parts[0] * self.parts[1]

    @property
    def k2(self) -> int:
        """Tiles of the moving kind that stay in L2."""
        return self._tiles(still=False) >> self.k2_halvings

    @property
    def k3(self) -> int:
        """Tiles of the stationary kind that stay in L3."""
        return self._tiles(still=True) >> self.k3_halvings

    def _tiles(self, still: bool) -> int:
        windows_still = self.order == INPUT_STATIONARY
        return self.window_tiles if still == windows_still else self.filter_tiles

    @property
    def window_tiles(self) -> int:
        """IN tiles, with the narrower last one."""
        return ceil_div(self.windows, self.width)

    @property
    def taps(self) -> int:
        """Filter elements a channel."""
        return self.conv.kh * self.conv.kw

    @property
    def windows(self) -> int:
        """Windows of one image: output elements a channel."""
        return self.conv.out_h * self.conv.out_w

    @property
    def width(self) -> int:
        """Windows of a full IN tile."""
        return self.vectors * self.lanes

    @property
    def full_tiles(self) -> int:
        """IN tiles of full width."""
        return self.windows // self.width

    @property
    def tail(self) -> int:
        """Windows that are left for a narrower tile."""
        return self.windows % self.width

    @property
    def tail_vectors(self) -> int:
        """Vectors that hold the tail's windows."""
        return ceil_div(self.tail, self.lanes)

    @property
    def tail_start(self) -> int:
        """The tail's first window: moved back so that its last vector ends with the last window."""
        return max(0, self.windows - self.tail_vectors * self.lanes)

    @property
    def tail_overhangs(self) -> bool:
        """Whether there are too few windows to move the tail back."""
        return self.windows < self.tail_vectors * self.lanes

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
        return max(full for full, _ in self._filter_shares)

    @property
    def _filter_shares(self) -> list[tuple[int, int]]:
        return shares.sizes(self.full_filters, self.odd_filters > 0, self.parts[1])

    @property
    def channel_sets(self) -> int:
        """Sets of ``channels`` channels, with the smaller last one."""
        return ceil_div(self.conv.in_c, self.channels)

    @property
    def depth(self) -> int:
        """Products an output element gets from one full channel set."""
        return self.channels * self.taps

    @property
    def unrolls_rows(self) -> bool:
        """Whether the rows of a filter are unrolled where windows are read in place."""
        crowded = not self.matrix and self.filters * self.vectors in CROWDED
        return self.taps <= LONGEST_UNROLL and not crowded

    def set_channels(self, channel_set: Any) -> Any:
        """Channels of one set: the last may have fewer."""
        if self.conv.in_c % self.channels == 0:
            return self.channels
        return tir.least(self.channels, self.conv.in_c - channel_set * self.channels)

    @property
    def slots(self) -> int:
        """How many packed IN tiles a thread keeps."""
        tiles = max(1, self.full_tiles)
        if self.order == WEIGHT_STATIONARY:
            return min(self.k2, tiles)
        return min(self.k3, tiles) if self.filter_share > self.k2 else 1

    @property
    def pack_slack(self) -> int:
        """Elements past the last packed tile that packing may write."""
        return 2 * self.width + 2 * self.lanes

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights; the last filter tile is filled up with zeros."""
        return self.filter_tiles * self.filters * self.conv.in_c * self.taps

    @property
    def straight(self) -> bool:
        """Whether every vector of windows is contiguous in the input's layout."""
        return InputLayout(self.conv).flat or self.conv.out_w % self.lanes == 0

    @property
    def layout(self) -> InputLayout:
        """The input as this config reads it."""
        exact = self.straight and not self.tail_overhangs
        return InputLayout(self.conv, 0 if exact else self.width + 2 * self.lanes)

    @property
    def packing_moves(self) -> int:
        """Vectors copied for one tap of a full IN tile: more than it holds when they cross rows."""
        if self.straight:
            return self.vectors
        width = self.conv.out_w
        return (1 + ceil_div(self.width - 1, width)) * ceil_div(min(width, self.width), self.lanes)

    def compute_cycles(self, target: Target) -> float:
        """Cycles for one image of the thread with most to do, and of its part of the copy that all read.

        They are those of the arithmetic and of packing windows: each thread packs those that it needs.
        """
        tile_shares = shares.sizes(self.full_tiles, self.tail > 0, self.parts[0])
        most = max(
            self._share_cycles(target, tiles, filters)
            for tiles in tile_shares
            for filters in self._filter_shares
        )
        return most + self.layout.copy_cycles / self.threads

    def _share_cycles(self, target: Target, tiles: tuple[int, int], filters: tuple[int, int]) -> float:
        """Cycles of so many (full, narrower) window tiles with so many (full, smaller) filter tiles."""
        depth = self.conv.in_c * self.taps
        results = self.conv.out_c * self.windows
        total = 0.0
        for vectors, count in zip((self.vectors, self.tail_vectors), tiles, strict=True):
            for size, filter_tiles in zip((self.filters, self.odd_filters), filters, strict=True):
                step = self._step_cycles(target, size, vectors)
                sums: float = machine.CALL_CYCLES + size * vectors
                # A tile that does not fill its lines of the output has some that its neighbours load again.
                lines = ceil_div(vectors * self.lanes * 4, target.line_bytes)
                sums += machine.stream_cycles(target, size * lines * target.line_bytes, 4.0 * results)
                total += count * filter_tiles * (depth * step + self.channel_sets * sums)
            if self.packed:
                moves = self.packing_moves * vectors / self.vectors * self.packing_passes
                total += count * depth * moves * machine.MOVE_CYCLES
        return total

    def _step_cycles(self, target: Target, filters: int, vectors: int) -> float:
        if self.matrix:
            return mma.step_cycles(target, filters, vectors)
        return machine.step_cycles(target, filters, vectors)

    @property
    def packing_passes(self) -> int:
        """How often each IN tile is packed: again for every set of filters when weights are stationary."""
        return ceil_div(self.filter_tiles, self.k3) if self.order == WEIGHT_STATIONARY else 1
