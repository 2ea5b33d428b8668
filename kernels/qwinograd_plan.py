"""The configs of the exact quantized Winograd convolution on x86 as numbers, and which tiles are exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from kernels.qband import Band
from kernels.qwinograd_axis import AXES, Axis
from kernels.qworkload import QConv2d
from kernels.qx86 import INT16, LINE_BYTES
from kernels.space import Config
from kernels.target import Target

BANDS, BLOCKS = "bands", "blocks"
"""What threads share out: bands of tiles, or each block's rows, points and filters in turn."""
TILES = ("4x4", "2x4", "4x2", "2x2")
"""Results of a tile, down and across."""
LARGEST = 128
"""Data as they are multiplied are from -128 to 127: of uint8, 128 less."""
MOST_SLABS = 4
"""Parts of the channels, each with sums of its own that fit: more would be sums and ways back for no gain."""


@dataclass(frozen=True)
class Plan:
    """A config as numbers. Sizes are in elements."""

    conv: QConv2d
    tile: str
    rows: int
    columns: int
    block: int
    vectors: int
    prefetch: bool
    split: str
    filters_outside: bool
    requant: str
    bits: int

    @classmethod
    def of(cls, conv: QConv2d, config: Config, target: Target) -> Plan:
        """Read a config."""
        block, vectors = map(int, str(config["block"]).split("x"))
        return cls(
            conv=conv,
            tile=str(config["tile"]),
            rows=config.int("rows"),
            columns=config.int("columns"),
            block=block,
            vectors=vectors,
            prefetch=config.int("prefetch") > 0,
            split=str(dict(config.knobs).get("split", BANDS)),
            filters_outside=config["order"] == "filters",
            requant=str(config["requant"]),
            bits=target.vector_bits,
        )

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        """The algorithm down and the one across."""
        return axes_of(self.tile)

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
    def lanes(self) -> int:
        """Filters in a vector."""
        return self.bits // 32

    @property
    def tiles(self) -> int:
        """Tiles that are transformed at a time."""
        return self.rows * self.columns

    @property
    def filters(self) -> int:
        """Filters, filled up to whole vectors."""
        return -(-self.conv.out_c // self.lanes) * self.lanes

    @property
    def units(self) -> int:
        """Pairs of channels."""
        return -(-self.conv.in_c // 2)

    @property
    def slabs(self) -> int:
        """Parts of the channels that are transformed back one by one, and added up as results."""
        return slabs_of(self.conv, self.tile)

    @property
    def slab(self) -> int:
        """Pairs of channels in a slab; the last one may have less."""
        return -(-self.units // self.slabs)

    @property
    def packed_length(self) -> int:
        """Elements of the transformed filters."""
        return self.points * 2 * self.units * self.filters

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
        return Band(filled, down * self.rows, "int16", offset_of(self.conv), 2)

    def panels(self) -> list[tuple[int, int, int]]:
        """(first vector, vectors, count) of tiles of filters: whole ones, then what is left."""
        whole, rest = divmod(self.filters // self.lanes, self.vectors)
        return [(0, self.vectors, whole)] * (whole > 0) + [(whole * self.vectors, rest, 1)] * (rest > 0)


def axes_of(tile: str) -> tuple[Axis, Axis]:
    """The algorithms of one of ``TILES``, down and across."""
    down, across = map(int, tile.split("x"))
    return AXES[down], AXES[across]


def offset_of(conv: QConv2d) -> int:
    """What is added to the data: smaller numbers leave more bits to the transforms."""
    return -LARGEST if conv.data_dtype == "uint8" else 0


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
    units = -(-conv.in_c // 2)
    return 1 if conv.in_c <= most else -(-units // (most // 2))


def tiles_of(conv: QConv2d, tile: str) -> tuple[int, int]:
    """Tiles of a plane, down and across."""
    down, across = axes_of(tile)
    return -(-conv.out_h // down.results), -(-conv.out_w // across.results)
