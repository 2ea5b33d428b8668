"""The configs of the exact quantized Winograd convolution on x86 as numbers, and which tiles are exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

from kernels.arithmetic import ceil_div
from kernels.int8.band import Band
from kernels.int8.x86.instructions import INT16, LINE_BYTES
from kernels.int8.x86.plan import TiledPlan
from kernels.int8.x86.winograd.axis import AXES, Axis
from kernels.knobs import Block, KnobSet
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

BANDS, BLOCKS = "bands", "blocks"
"""What threads share out: bands of tiles, or each block's rows, points and filters in turn."""
POINTS, FILTERS = "points", "filters"
"""What is outside: the points of a tile, or tiles of filters."""
TILES = ("4x4", "2x4", "4x2", "2x2")
"""Results of a tile, down and across."""
LARGEST = 128
"""Data as they are multiplied are from -128 to 127: of uint8, 128 less."""
MOST_SLABS = 4
"""Parts of the channels, each with sums of its own that fit: more would be sums and ways back for no gain."""

LEAST_TILES, MOST_TILES = 12, 64
"""Tiles that are worth transforming at a time: enough for their weights, few enough for caches."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``tile`` is the results of a tile, down and across, of those for which the workload proves that all
    numbers fit; ``rows`` x ``columns`` tiles are transformed at a time; ``block`` is tiles x vectors of
    filters in registers; ``order`` is what is outside: ``points``, whose tiles then stay in L1, or tiles of
    ``filters``, whose sums do; ``prefetch`` asks for the next tile of filters while one is used; ``requant``
    is how sums are scaled, and ``split`` is what threads share out.
    """

    tile: str
    rows: int
    columns: int
    block: Block
    order: str
    prefetch: bool
    requant: str
    split: str = BANDS


@dataclass(frozen=True)
class Plan(TiledPlan):
    """A config as numbers. Sizes are in elements."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why nobody would want these tiles at a time, or threads cannot share them out."""
        knobs, threads = self.knobs, self.threads
        down, across = self.plane
        columns = widths(self.conv, knobs.tile)
        if knobs.rows not in heights(self.conv, knobs.tile) or knobs.columns not in columns:
            return f"{knobs.rows} x {knobs.columns} tiles do not divide {down} x {across} into like parts"
        if self.tiles > MOST_TILES and self.tiles > columns[0]:
            return f"{self.tiles} tiles at a time are more than the caches take"
        size, turns = self.block - 1, ceil_div(self.tiles, self.block)
        if (size, self.vectors) in blocks(self.conv, self.target) and turns == ceil_div(self.tiles, size):
            return f"the same as {size}x{self.vectors}, as blocks are of like sizes"
        if threads > 1 and knobs.split == BLOCKS and self.filters_outside:
            return "threads would share the sums of one tile of filters"
        if threads > 1 and knobs.split == BANDS:
            return "fewer bands than threads" if self.bands < min(threads, self.conv.n * down) else None
        if self.tiles < min(LEAST_TILES, down * across) and knobs.rows < down:
            return f"{self.tiles} tiles at a time are too few for the weights they load"
        return None

    @property
    def block(self) -> int:
        """Tiles of a block in registers."""
        return self.knobs.block[0]

    @property
    def vectors(self) -> int:
        """Vectors of filters of a block."""
        return self.knobs.block[1]

    @property
    def filters_outside(self) -> bool:
        """Whether all points of a tile of filters follow each other."""
        return self.knobs.order == FILTERS

    @property
    def plane(self) -> tuple[int, int]:
        """Tiles of a plane, down and across."""
        return plane_of(self.conv, self.knobs.tile)

    @property
    def bands(self) -> int:
        """Bands of all images."""
        return self.conv.n * ceil_div(self.plane[0], self.knobs.rows)

    @property
    def parts(self) -> int:
        """Parts of a band that are transformed at a time."""
        return ceil_div(self.plane[1], self.knobs.columns)

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        """The algorithm down and the one across."""
        return axes_of(self.knobs.tile)

    @property
    def points(self) -> int:
        """Multiplications a tile, a pair of channel and filter."""
        down, across = self.axes
        return down.points * across.points

    @property
    def results(self) -> int:
        """Results of a tile."""
        down, across = self.axes
        return down.results * across.results

    @property
    def tiles(self) -> int:
        """Tiles that are transformed at a time."""
        return self.knobs.rows * self.knobs.columns

    @property
    def units(self) -> int:
        """Pairs of channels."""
        return ceil_div(self.conv.in_c, 2)

    @property
    def slabs(self) -> int:
        """Parts of the channels that are transformed back one by one, and added up as results."""
        return slabs_of(self.conv, self.knobs.tile)

    @property
    def slab(self) -> int:
        """Pairs of channels in a slab; the last one may have less."""
        return ceil_div(self.units, self.slabs)

    @property
    def packed_length(self) -> int:
        """Elements of the transformed filters."""
        return self.points * 2 * self.units * self.filters

    @property
    def packed_dtype(self) -> str:
        """Transformed filters fit int16."""
        return "int16"

    @property
    def offset(self) -> int:
        """What is added to the data: smaller numbers leave more bits to the transforms."""
        return -LARGEST if self.conv.data_dtype == "uint8" else 0

    # A line more between points: by powers of two, a tile's points would all be in one set of the cache.
    @property
    def data_pitch(self) -> int:
        """Between points of transformed tiles."""
        return self.tiles * 2 * self.units + LINE_BYTES // 2

    @property
    def sums_row(self) -> int:
        """Between tiles of a block's sums."""
        return min(self.filters, self.vectors * self.lanes) if self.filters_outside else self.filters

    @property
    def sums_pitch(self) -> int:
        """Between points of a block's sums."""
        return self.tiles * self.sums_row + LINE_BYTES // 4

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Bytes of the filters, and of a block's transformed tiles and sums."""
        data, sums = self.points * self.data_pitch, self.slabs * self.points * self.sums_pitch
        return 2 * self.packed_length, 2 * data, 4 * sums

    @property
    def band(self) -> Band:
        """The rows that a row of blocks needs; planes are filled up to whole tiles."""
        top, left, bottom, right = self.conv.pad
        down, across = (axis.results for axis in self.axes)
        bottom, right = bottom + -self.conv.out_h % down, right + -self.conv.out_w % across
        filled = replace(self.conv, pad=(top, left, bottom, right))
        return Band(filled, down * self.knobs.rows, "int16", self.offset, 2)


def axes_of(tile: str) -> tuple[Axis, Axis]:
    """The algorithms of one of ``TILES``, down and across."""
    down, across = map(int, tile.split("x"))
    return AXES[down], AXES[across]


def why_tile_inexact(conv: QConv2d, tile: str) -> str | None:
    """Why ``tile`` could come out wrong, or None when all its numbers fit."""
    down, across = axes_of(tile)
    weight = max(map(abs, conv.centered_range))
    filters = down.gains[1] * across.gains[1] * weight
    if filters > INT16[1] or down.gains[0] * across.gains[0] * LARGEST > INT16[1]:
        return f"filters of {tile} tiles may be up to {filters} and not fit int16"
    if slabs_of(conv, tile) > MOST_SLABS:
        lost = 1 << down.loss + across.loss
        return f"{lost} times the sum over a part of {MOST_SLABS} of {conv.in_c} channels may not fit int32"
    return None


def slabs_of(conv: QConv2d, tile: str) -> int:
    """The fewest parts of whole pairs of channels whose sums come back right from ``tile``.

    The bias and the other parts are added after the division, whose rest has to be right.
    """
    down, across = axes_of(tile)
    weight = max(1, *map(abs, conv.centered_range))
    most = ((1 << 31) - 1) // (LARGEST * weight * 9 << down.loss + across.loss)
    units = ceil_div(conv.in_c, 2)
    return 1 if conv.in_c <= most else ceil_div(units, most // 2)


def plane_of(conv: QConv2d, tile: str) -> tuple[int, int]:
    """Tiles of a plane, down and across."""
    down, across = axes_of(tile)
    return ceil_div(conv.out_h, down.results), ceil_div(conv.out_w, across.results)


@cache
def heights(conv: QConv2d, tile: str) -> list[int]:
    """Rows of tiles that divide a plane into parts as even as can be."""
    down = plane_of(conv, tile)[0]
    return sorted({ceil_div(down, parts) for parts in range(1, down + 1)})


@cache
def widths(conv: QConv2d, tile: str) -> list[int]:
    """Whole rows, or a half or a quarter of one that is long."""
    across = plane_of(conv, tile)[1]
    return sorted({ceil_div(across, parts) for parts in (1, 2, 4) if across // parts >= 7 or parts == 1})


@cache
def blocks(conv: QConv2d, target: Target) -> list[Block]:
    """(tiles, vectors of filters) whose sums fill the registers, beside a window and a product."""
    room = target.vector_registers - 2
    vectors = sorted({min(v, ceil_div(conv.out_c, target.vector_bits // 32)) for v in (2, 3)})
    return [(size, v) for v in vectors for size in range(max(2, room // v - 3), room // v)]
