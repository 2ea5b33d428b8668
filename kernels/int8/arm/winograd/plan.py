"""What a config of the exact Winograd convolution on Arm means: tiles, blocks, and where everything lies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.int8.arm.blocks.block import Block
from kernels.int8.arm.blocks.kinds import BLOCKS
from kernels.int8.arm.plan import NeonKnobs, NeonPlan
from kernels.int8.arm.winograd.points import PAIRS, Points
from kernels.int8.band import Band
from kernels.isa.arm import ARM32
from kernels.workload.qconv2d import LIMITS, QConv2d

LANES = 8
"""16-bit elements of a vector: channels that are transformed, and filters that are finished together."""
LINE = 16
"""32-bit elements of a cache line."""
INT16 = (1 << 15) - 1


@dataclass(frozen=True)
class Knobs(NeonKnobs):
    """``points`` of the algorithm, for groups of ``taps``; ``rows`` x ``columns`` is the block, in tiles and
    filters; ``band`` lines are transformed at a time; a ``slab`` of blocks of tiles meets all filters before
    the next, and all points of ``filters`` filters come before the next filters.
    """

    points: int
    taps: int
    rows: int
    columns: int
    band: int
    slab: int
    filters: int


@dataclass(frozen=True)
class Plan(NeonPlan):
    """One image at a time, ``band`` lines of it at once. Sizes are in elements.

    Tiles run ``along`` an axis: columns (1), or rows (0) where filters have one column. A *line* is what lies
    across them: a row of tiles, or a column. Each of its tiles is a *cell*. A filter's taps along the axis
    are ``groups`` of ``points.taps``; those across it are further products of the same sums.
    """

    knobs: Knobs
    packed_dtype = "int16"

    def why_not(self) -> str | None:
        """Why the algorithm, the bands or the block cannot be; None when all is well."""
        if (self.knobs.points, self.knobs.taps) not in algorithms(self.conv):
            return "the algorithm's numbers do not fit, or its taps are not the filter's"
        if not self.along and self.knobs.band != self.lines:
            return "bands are of rows"
        if self.block.accumulators + 1 >= self.target.vector_registers:
            return f"{self.block.accumulators} sums spill"
        return None

    @cached_property
    def points(self) -> Points:
        """The algorithm."""
        return Points(self.knobs.points, self.knobs.taps)

    @cached_property
    def block(self) -> Block:
        """The micro-kernel of the products, which are those of ``lane`` blocks."""
        return BLOCKS["lane"](self.knobs.rows, self.knobs.columns, arm32=self.target.isa is ARM32)

    @property
    def along(self) -> int:
        """The axis of tiles."""
        return axis_of(self.conv)

    @property
    def length(self) -> int:
        """Results along the axis."""
        return (self.conv.out_h, self.conv.out_w)[self.along]

    @property
    def lines(self) -> int:
        """Lines of results of an image."""
        return (self.conv.out_w, self.conv.out_h)[self.along]

    @property
    def across(self) -> int:
        """Taps across the axis."""
        return (self.conv.kw, self.conv.kh)[self.along]

    @property
    def groups(self) -> int:
        """Groups of taps along the axis."""
        return ceil_div(taps_along(self.conv), self.points.taps)

    @property
    def taps(self) -> int:
        """Products of a point's sum, a channel."""
        return self.across * self.groups

    @property
    def tiles(self) -> int:
        """Tiles of a line."""
        return ceil_div(self.length, self.points.results)

    @property
    def windows(self) -> int:
        """Tiles of a band."""
        return self.knobs.band * self.tiles

    @property
    def cells(self) -> int:
        """Tiles of a band's data, which has more lines than its results."""
        return (self.knobs.band + self.across - 1) * self.tiles

    @property
    def bands(self) -> int:
        """Bands of an image; the last one ends with it."""
        return ceil_div(self.lines, self.knobs.band)

    @property
    def channels(self) -> int:
        """Channels, filled up to whole vectors."""
        return ceil_div(self.conv.in_c, LANES) * LANES

    @property
    def steps(self) -> int:
        """Steps of the block for one tap."""
        return self.channels // self.block.depth

    @property
    def transformed(self) -> int:
        """A band's data at all points."""
        return self.points.count * self.groups * self.cells * self.channels

    @property
    def passes(self) -> int:
        """Rounds of ``filters`` filters."""
        return self.conv.out_c // self.knobs.filters

    @property
    def width(self) -> int:
        """Sums of a window at one point, with those that fill up the last panel."""
        return self.block.filled(self.knobs.filters)

    @property
    def sums(self) -> int:
        """Sums of a band at one point, and a line more, lest all points fall to one place in the cache."""
        return self.windows * self.width + LINE

    @property
    def depth(self) -> int:
        """Products of a sum."""
        return self.taps * self.channels

    @property
    def packed_length(self) -> int:
        """The transformed filters."""
        return self.passes * self.points.count * self.width * self.depth

    @property
    def copy(self) -> Band:
        """The padded data of a band, as long as its tiles."""
        conv, points = self.conv, self.points
        longer = self.tiles * points.results - self.length
        longer += self.groups * points.taps - taps_along(conv)
        top, left, bottom, right = conv.pad
        if self.along:
            return Band(
                replace(conv, pad=(top, left, bottom, right + longer)), self.knobs.band, "int16", 0, LANES
            )
        high = replace(conv, pad=(top, left, bottom + longer, right))
        return Band(high, conv.out_h + longer, "int16", 0, LANES)


def axis_of(conv: QConv2d) -> int:
    """The axis along which filters have the taps that are transformed: columns, if there are several."""
    return 1 if conv.kw > 1 else 0


def taps_along(conv: QConv2d) -> int:
    """Taps along that axis."""
    return (conv.kh, conv.kw)[axis_of(conv)]


@cache
def algorithms(conv: QConv2d) -> list[tuple[int, int]]:
    """(points, taps of a group) for which all numbers fit: transformed ones int16, and sums int32 less what
    the way back loses."""
    data, weight = max(map(abs, LIMITS[conv.data_dtype])), max(map(abs, conv.centered_range))
    total = conv.taps * conv.in_c * data * weight
    found = []
    for count in PAIRS:
        for part in sorted({ceil_div(taps_along(conv), groups) for groups in range(1, 4)}):
            points = Points(count, part)
            if part < 2 or points.results < 2:
                continue
            largest = max(
                data * int(np.abs(points.data).sum(axis=1).max()),
                weight * int(np.abs(points.filters).sum(axis=1).max()),
            )
            if largest <= INT16 and total << points.loss < 1 << 31:
                found.append((count, part))
    return found
