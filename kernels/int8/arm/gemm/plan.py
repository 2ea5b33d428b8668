"""What a config of the quantized matrix product means for one convolution: block, operands, tiles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.arithmetic import ceil_div, even
from kernels.int8.arm.blocks.block import Block
from kernels.int8.arm.blocks.fours import Fours
from kernels.int8.arm.blocks.kinds import BLOCKS
from kernels.int8.arm.operands import signedness, why_not_chained
from kernels.int8.arm.plan import NeonKnobs, NeonPlan
from kernels.isa.arm import ARM32
from kernels.workload.qconv2d import QConv2d

FEATURES = {"dot": "dotprod", "matrix": "i8mm"}
"""What instruction set a kind of block needs beyond the base."""
SIDES = (1, 2, 3, 4, 5, 6, 7, 8)
LONG_SIDE = 12
"""Instructions that add to sums of 32 bits at once leave registers for blocks of 8x12 and 12x4."""
TILES, DATA = "tiles", "data"
WINDOWS, FILTERS = "windows", "filters"


@dataclass(frozen=True)
class Knobs(NeonKnobs):
    """``block`` is the kind of micro-kernel (``int8/arm/blocks``), ``rows`` x ``columns`` its size in
    windows and filters, ``chain`` how many products are added in 16 bits. ``rows_from`` says where the
    block finds its windows: ``data``, as they lie there, or ``tiles``, transformed. ``slab`` tiles of windows
    are transformed and meet all filters before the next: they should fit L1. That is the ``order`` with
    ``windows`` outside. With ``filters`` outside all windows are transformed first, and a panel of filters
    meets all of them before the next panel. ``split`` parts of the depth come one after the other: sums wait
    in memory until the next part's products are added.
    """

    block: str
    rows: int
    columns: int
    chain: int
    rows_from: str
    slab: int
    order: str = WINDOWS
    split: int = 1


@dataclass(frozen=True)
class Part:
    """A part of the depth: ``steps`` from step ``first`` on, whose packed weights begin at element ``at``."""

    first: int
    steps: int
    at: int


@dataclass(frozen=True)
class Plan(NeonPlan):
    """One image after another, ``windows`` x ``depth`` times ``depth`` x filters, in tiles of ``block``.

    ``depth`` is filled up to ``steps`` steps of the block.
    """

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why there is no such block, or its products or operands are not what it needs; else None."""
        knobs, kind, sums = self.knobs, self.knobs.block, self.block.accumulators
        if LONG_SIDE in (knobs.rows, knobs.columns) and kind not in FEATURES:
            return f"{kind} has blocks of up to {SIDES[-1]}x{SIDES[-1]}"
        if sums + 1 >= self.target.vector_registers:
            return f"{sums} sums spill: {self.target.name} has {self.target.vector_registers} vectors"
        if knobs.chain == 2 and (kind != "pairwise" or why_not_chained(self.conv)):
            return why_not_chained(self.conv) or f"chains are of pairwise, not of {kind}"
        if kind == "fours" and (why := self._why_not_fours):
            return why
        if self.in_place and kind == "dot":
            return "lanes of dot products are four windows"
        if knobs.order == FILTERS and (why := self._why_not_outside):
            return why
        if 1 < knobs.split > self.steps // 2:
            return f"{self.steps} steps are too few for {knobs.split} parts"
        return why_not_in_place(self.conv, self.block) if self.in_place else None

    @property
    def _why_not_outside(self) -> str | None:
        if self.knobs.slab > 1:
            return "with filters outside there are no slabs"
        size = 0 if self.in_place else self.windows * self.padded_depth * np.dtype(self.packed_dtype).itemsize
        if size > self.target.l2_bytes:
            return f"{size} bytes of transformed windows do not fit L2"
        return None

    @property
    def _why_not_fours(self) -> str | None:
        if signedness(self.conv) is not True:
            return "fours multiply signed bytes"
        if self.target.isa is ARM32:
            return f"{self.target.name} has too few registers for fours"
        return why_not_chained(self.conv)

    @cached_property
    def block(self) -> Block:
        """The micro-kernel."""
        knobs = self.knobs
        return BLOCKS[knobs.block](
            min(knobs.rows, self.windows),
            min(knobs.columns, self.conv.out_c),
            signed=signedness(self.conv) is not False,
            chain=knobs.chain,
            arm32=self.target.isa is ARM32,
        )

    @property
    def in_place(self) -> bool:
        """Whether windows need no transform."""
        return self.knobs.rows_from == DATA

    @property
    def windows(self) -> int:
        """Rows of the product, over all images."""
        return self.conv.n * self.conv.windows

    @property
    def depth(self) -> int:
        """Products a sum."""
        return self.conv.taps * self.conv.in_c

    @property
    def steps(self) -> int:
        """Steps of the block along the depth."""
        return ceil_div(self.depth, self.block.depth)

    @property
    def padded_depth(self) -> int:
        """``depth``, filled up."""
        return self.steps * self.block.depth

    @property
    def tiles(self) -> int:
        """Whole tiles of windows."""
        return self.windows // self.block.rows

    def strides(self, block: Block) -> tuple[int, int]:
        """From a row of a tile to the next, and from its elements of one step to those of the next."""
        if self.in_place or isinstance(block, Fours):
            return (self.depth if self.in_place else self.padded_depth), block.depth
        return block.depth, block.rows * block.depth

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return sum(self._length(part.steps) for part in self.parts)

    @cached_property
    def parts(self) -> list[Part]:
        """Those of the depth, as even as can be."""
        parts, first, at = [], 0, 0
        for steps, count in even(self.steps, ceil_div(self.steps, self.knobs.split)):
            for _ in range(count):
                parts.append(Part(first, steps, at))
                first, at = first + steps, at + self._length(steps)
        return parts

    def _length(self, steps: int) -> int:
        """Elements of so many steps of all panels."""
        return sum(count * block.length(steps) for _, count, block in self.block.panels(self.conv.out_c))

    @property
    def packed_dtype(self) -> str:
        """The type of both operands."""
        return self.block.dtype


def why_not_in_place(conv: QConv2d, block: Block) -> str | None:
    """Why the rows of the product do not lie in the data as they are, or None when they do."""
    if conv.taps > 1 or max(conv.stride) > 1 or max(conv.pad) > 0:
        return "windows overlap, are padded or skip some of the data"
    if conv.in_c % block.unit:
        return f"{conv.in_c} channels are no multiple of {block.unit}"
    if block.dtype not in (conv.data_dtype, "int16"):
        return f"the data are {conv.data_dtype}, the products want {block.dtype}"
    return None
