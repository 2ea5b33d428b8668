"""How a chain is sliced, and how large its caches are (seed 004: h_split, k_split, NHWC8h8w32c)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kernels.arithmetic import ceil_div
from kernels.emit.types import Index
from kernels.workload.geometry import ConvGeometry

COLUMNS, CHANNELS = 8, 32
"""Columns and channels of a block: NHWC8h8w32c."""
DEPTH = 4
"""Neighbouring channels in filters: OIHW8i32o4i."""


@dataclass(frozen=True)
class Blocked:
    """A cache of whole blocks of ``height`` rows x 8 columns x 32 channels; sizes are in elements."""

    rows: int
    columns: int
    channels: int
    height: int

    @property
    def cell(self) -> int:
        """Elements of a block."""
        return self.height * COLUMNS * CHANNELS

    @property
    def across(self) -> int:
        """From a block to the one beside it."""
        return ceil_div(self.channels, CHANNELS) * self.cell

    @property
    def down(self) -> int:
        """From a block to the one below it."""
        return ceil_div(self.columns, COLUMNS) * self.across

    @property
    def elements(self) -> int:
        """All of it."""
        return ceil_div(self.rows, self.height) * self.down

    def row(self, row: Index) -> Index:
        """Where a row begins."""
        return row // self.height * self.down + row % self.height * (COLUMNS * CHANNELS)

    def column(self, column: Index) -> Index:
        """From the beginning of a row to a column."""
        return column // COLUMNS * self.across + column % COLUMNS * CHANNELS

    def channel_block(self, block: Index) -> Index:
        """From the first block of channels to another."""
        return block * self.cell


@dataclass(frozen=True)
class Slices:
    """The slices of a chain: ``h_split`` blocks of ``height`` rows of the result, and ``k_split`` blocks of
    32 channels, at a time.

    A slice's rows of the first result are computed in runs of as many rows, each with an input of its own.
    With ``kept``, those that the slice before has computed are not computed again.
    """

    first: ConvGeometry
    second: ConvGeometry
    height: int
    h_split: int
    k_split: int
    kept: bool

    @property
    def rows(self) -> int:
        """Rows of the result of a slice; the last may have fewer."""
        return self.height * self.h_split

    @property
    def count(self) -> int:
        """Slices of an image."""
        return ceil_div(self.second.out_h, self.rows)

    @property
    def middle_rows(self) -> int:
        """Rows of the first result that a slice needs."""
        return taken(self.second, min(self.rows, self.second.out_h))

    @property
    def overlap(self) -> int:
        """Rows of the first result that two slices have in common."""
        return max(0, self.middle_rows - self.rows * self.second.stride[0]) if self.kept else 0

    @property
    def runs(self) -> int:
        """Runs of rows of the first result, of a slice none of whose rows are kept."""
        return ceil_div(self.middle_rows, self.rows)

    @property
    def run_rows(self) -> int:
        """Rows of a run, at most."""
        return min(self.rows, self.middle_rows)

    def channel_blocks(self, part: ConvGeometry) -> int:
        """Blocks of 32 channels of its result."""
        return ceil_div(part.out_c, CHANNELS)

    def channel_slices(self, part: ConvGeometry) -> int:
        """Slices of its channels."""
        return ceil_div(self.channel_blocks(part), self.k_split)

    @cached_property
    def source(self) -> Blocked:
        """The cache of the input, padded."""
        one = self.first
        columns = max(skipped(one) + reach(one), lead(one) + one.in_w)
        return Blocked(taken(one, self.run_rows), columns, one.in_c, self.height)

    @cached_property
    def between(self) -> Blocked:
        """The cache of the first result, padded as the second convolution wants it."""
        two = self.second
        columns = max(skipped(two) + reach(two), lead(two) + two.in_w)
        return Blocked(self.middle_rows, columns, two.in_c, self.height)

    @cached_property
    def result(self) -> Blocked:
        """The cache of the result, which lies where the input lay."""
        blocks = min(self.k_split, self.channel_blocks(self.second))
        rows = min(self.rows, self.second.out_h)
        return Blocked(rows, self.second.out_w, blocks * CHANNELS, self.height)

    def filter_block(self, part: ConvGeometry) -> int:
        """Elements of the filters of 32 channels of its result."""
        if part.is_depthwise:
            return part.taps * CHANNELS
        return ceil_div(part.in_c, CHANNELS) * part.taps * CHANNELS * CHANNELS

    @property
    def filters(self) -> int:
        """Elements of the cache of filters, first of the one and then of the other convolution."""
        sizes: Sequence[int] = [
            self.filter_block(part) * min(self.k_split, self.channel_blocks(part))
            for part in (self.first, self.second)
        ]
        return max(sizes)

    @property
    def cache_elements(self) -> dict[str, int]:
        """Elements of each cache, as the seed counts them."""
        first = max(self.source.elements, self.result.elements)
        return {"input and output": first, "filters": self.filters, "between": self.between.elements}

    @property
    def work(self) -> float:
        """Multiply-adds of all slices: the first convolution again for all slices of channels, and rows that
        slices share."""
        one, two = self.first, self.second
        again = self.channel_slices(two)
        shared = (self.count - 1) * (self.middle_rows - self.rows * two.stride[0]) * (not self.kept)
        rows = min(one.out_h + max(0, shared), self.count * self.middle_rows)
        return one.flops / 2 * again * rows / one.out_h + two.flops / 2


def taken(part: ConvGeometry, rows: int) -> int:
    """Rows that ``rows`` rows of its result need."""
    return (rows - 1) * part.stride[0] + (part.kh - 1) * part.dilation[0] + 1


def reach(part: ConvGeometry) -> int:
    """Columns, with padding, that its result needs."""
    return (part.out_w - 1) * part.stride[1] + (part.kw - 1) * part.dilation[1] + 1


def lead(part: ConvGeometry) -> int:
    """Columns of a cache before the first of what ``part`` reads: none, or blocks that end with padding."""
    return ceil_div(part.pad[1], COLUMNS) * COLUMNS


def skipped(part: ConvGeometry) -> int:
    """Those of them that no window meets."""
    return lead(part) - part.pad[1]


def why_no_slices(part: ConvGeometry, name: str) -> str | None:
    """Why ``part`` cannot be sliced, or None when it can."""
    if part.groups > 1 and not part.is_depthwise:
        return f"the {name} convolution is grouped"
    return None
