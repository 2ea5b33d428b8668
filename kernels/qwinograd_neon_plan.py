"""What a config of the exact Winograd convolution on Arm means: tiles, blocks, and where everything lies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kernels.kernel import Array
from kernels.qband import Band
from kernels.qblocks import BLOCKS, Block
from kernels.qpoints import Points
from kernels.qworkload import QConv2d
from kernels.space import Knobs
from kernels.target import Target, is_arm32

LANES = 8
"""16-bit elements of a vector: channels that are transformed, and filters that are finished together."""
LINE = 16
"""32-bit elements of a cache line."""


@dataclass(frozen=True)
class Plan:
    """One image at a time, ``band`` lines of it at once. Sizes are in elements.

    Tiles run ``along`` an axis: columns (1), or rows (0) where filters have one column. A *line* is what lies
    across them: a row of tiles, or a column. Each of its tiles is a *cell*. A filter's taps along the axis
    are ``groups`` of ``points.taps``; those across it are further products of the same sums.
    """

    conv: QConv2d
    points: Points
    block: Block
    band: int
    slab: int
    filters: int

    @classmethod
    def of(cls, conv: QConv2d, point: Knobs, target: Target) -> Plan:
        """The plan of a valid config."""
        block = BLOCKS["lane"](int(point["rows"]), int(point["columns"]), arm32=is_arm32(target))
        points = Points(int(point["points"]), int(point["taps"]))
        return cls(conv, points, block, int(point["band"]), int(point["slab"]), int(point["filters"]))

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
        return -(-(self.conv.kh, self.conv.kw)[self.along] // self.points.taps)

    @property
    def taps(self) -> int:
        """Products of a point's sum, a channel."""
        return self.across * self.groups

    @property
    def tiles(self) -> int:
        """Tiles of a line."""
        return -(-self.length // self.points.results)

    @property
    def windows(self) -> int:
        """Tiles of a band."""
        return self.band * self.tiles

    @property
    def cells(self) -> int:
        """Tiles of a band's data, which has more lines than its results."""
        return (self.band + self.across - 1) * self.tiles

    @property
    def bands(self) -> int:
        """Bands of an image; the last one ends with it."""
        return -(-self.lines // self.band)

    @property
    def channels(self) -> int:
        """Channels, filled up to whole vectors."""
        return -(-self.conv.in_c // LANES) * LANES

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
        return self.conv.out_c // self.filters

    @cached_property
    def panels(self) -> list[tuple[int, int, Block]]:
        """(first filter, panels, block) of a pass."""
        whole, rest = divmod(self.filters, self.block.columns)
        found = [(0, whole, self.block)] if whole else []
        if rest:
            found.append((whole * self.block.columns, 1, replace(self.block, columns=rest)))
        return found

    @property
    def width(self) -> int:
        """Sums of a window at one point, with those that fill up the last panel."""
        return sum(count * block.panel for _, count, block in self.panels)

    @property
    def sums(self) -> int:
        """Sums of a band at one point, and a line more, lest all points fall to one place in the cache."""
        return self.windows * self.width + LINE

    @property
    def depth(self) -> int:
        """Products of a sum."""
        return self.taps * self.channels

    @property
    def packed(self) -> int:
        """The transformed filters."""
        return self.passes * self.points.count * self.width * self.depth

    @property
    def copy(self) -> Band:
        """The padded data of a band, as long as its tiles."""
        conv, points = self.conv, self.points
        longer = self.tiles * points.results - self.length
        longer += self.groups * points.taps - (conv.kh, conv.kw)[self.along]
        top, left, bottom, right = conv.pad
        if self.along:
            return Band(replace(conv, pad=(top, left, bottom, right + longer)), self.band, "int16", 0, LANES)
        high = replace(conv, pad=(top, left, bottom + longer, right))
        return Band(high, conv.out_h + longer, "int16", 0, LANES)

    def pack(self, weights: Array) -> Array:
        """[pass][point][panel][tap][step] of the block's order, int16."""
        conv, points = self.conv, self.points
        # (kh, kw, channel, filter) to (across, along, channel, filter)
        turned = weights if self.along else weights.swapaxes(0, 1)
        shape = (self.across, self.groups * points.taps, self.channels, conv.out_c)
        filled = np.zeros(shape, np.int64)
        filled[:, : turned.shape[1], : conv.in_c] = turned
        grouped = filled.reshape(self.across, self.groups, points.taps, self.channels, conv.out_c)
        values = np.einsum("pt,agtcf->pagcf", points.filters, grouped).astype(np.int16)
        steps = values.reshape(points.count, self.taps, self.steps, self.block.depth, conv.out_c)
        parts = []
        for start in range(0, conv.out_c, self.filters):
            for point in steps:
                for first, count, block in self.panels:
                    part = point[..., start + first :][..., : count * block.columns]
                    part = part.reshape(*part.shape[:3], count, block.columns).transpose(3, 0, 1, 2, 4)
                    part = np.pad(part, [(0, 0)] * 4 + [(0, block.panel - block.columns)])
                    parts.append(np.ascontiguousarray(block.weights_step(part)).reshape(-1))
        return np.concatenate(parts)


def axis_of(conv: QConv2d) -> int:
    """The axis along which filters have the taps that are transformed: columns, if there are several."""
    return 1 if conv.kw > 1 else 0
