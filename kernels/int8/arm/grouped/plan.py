"""What a config of the quantized convolution with groups on Arm means: tiles of filters, and the copy."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.operands import signedness
from kernels.int8.arm.plan import NeonKnobs, NeonPlan
from kernels.int8.band import Band
from kernels.knobs import Block

LANE, DOT = "lane", "dot"
"""How channels meet filters: words one by one (``smlal``), or four bytes at a time (``sdot``, ``udot``)."""
CHANNELS = {LANE: 8, DOT: 16}
"""Of a vector."""
UNIT = {LANE: 1, DOT: 4}
"""Channels that are multiplied at a time."""


@dataclass(frozen=True)
class Knobs(NeonKnobs):
    """``multiply`` is ``lane``, words by ``smlal``, or ``dot``, four bytes by ``sdot`` or ``udot`` where
    the target has them and the weights fit. ``block`` is windows of a row x fours of filters in registers;
    ``rows`` of output are copied and worked on at a time.
    """

    multiply: str
    block: Block
    rows: int


@dataclass(frozen=True)
class Tile:
    """``count`` times ``filters`` filters of a group from number ``first`` on, side by side."""

    first: int
    filters: int
    count: int

    @property
    def quads(self) -> int:
        """Vectors of sums for one window."""
        return ceil_div(self.filters, QUAD)


@dataclass(frozen=True)
class Plan(NeonPlan):
    """Bands of output of all groups, in blocks."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why threads cannot share this out, or None when they can."""
        few = self.bands < min(self.threads, self.conv.n * self.conv.out_h)
        return "fewer bands than threads" if few else None

    @property
    def bands(self) -> int:
        """Bands of all images."""
        return self.conv.n * ceil_div(self.conv.out_h, self.knobs.rows)

    @property
    def unit(self) -> int:
        """Channels that are multiplied at a time."""
        return UNIT[self.knobs.multiply]

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        return CHANNELS[self.knobs.multiply]

    @property
    def packed_dtype(self) -> str:
        """The type of what is multiplied."""
        if self.knobs.multiply == LANE:
            return "int16"
        return "uint8" if signedness(self.conv) is False else "int8"

    @property
    def channels(self) -> int:
        """Channels of a group, filled up to whole units."""
        return ceil_div(self.conv.depth, self.unit) * self.unit

    @property
    def band(self) -> Band:
        """The copy of the input, as words or as the bytes that they are."""
        dtype = "int16" if self.knobs.multiply == LANE else self.conv.data_dtype
        return Band(self.conv, self.knobs.rows, dtype, 0, self.lanes)

    @property
    def tiles(self) -> list[Tile]:
        """The filters of a group: whole tiles, then what is left."""
        width = self.knobs.block[1] * QUAD
        whole, rest = divmod(self.conv.filters, width)
        tiles = [Tile(0, width, whole)] if whole else []
        return [*tiles, Tile(whole * width, rest, 1)] if rest else tiles

    @property
    def packed_group(self) -> int:
        """Elements of a group's packed weights."""
        quads = sum(tile.count * tile.quads for tile in self.tiles)
        return self.conv.taps * self.channels * quads * QUAD

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return self.conv.groups * self.packed_group
