"""The sizes that one config of the direct quantized convolution implies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8 import finish
from kernels.int8.band import Band
from kernels.int8.tir import QArguments
from kernels.int8.x86.direct.short_sums import ShortSums
from kernels.int8.x86.finish import Finish
from kernels.int8.x86.instructions import PARTS, WAYS, WIDE, Multiply
from kernels.int8.x86.plan import TiledPlan
from kernels.kernel import Array
from kernels.knobs import Block, KnobSet
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

WEIGHT_STATIONARY, INPUT_STATIONARY = "ws", "is"
BANDS, FILTERS = "bands", "filters"
"""What threads share out: bands of rows, or the tiles of filters of each band."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``multiply`` is the way (``instructions.py``); ``block`` is windows x vectors of filters in registers;
    ``rows`` the rows of output worked on at a time; ``order`` is ``ws`` (a filter tile stays while windows
    pass) or ``is``; ``prefetch`` asks for the next tile of filters while one is used; ``requant`` is how sums
    are scaled (``kernels/int8/requantize.py``), and ``split`` is what threads share out.
    """

    multiply: str
    block: Block
    rows: int
    order: str
    prefetch: bool
    requant: str
    split: str = BANDS


@dataclass(frozen=True)
class Plan(TiledPlan):
    """A config as numbers: ``windows`` x ``vectors`` of filters in registers, ``rows`` of output a band."""

    knobs: Knobs
    ways: ClassVar[Mapping[str, Multiply]] = WAYS

    def finish(self, args: QArguments) -> finish.Finish:
        """What makes results of sums."""
        return Finish(args, self.knobs.requant, self.bits)

    def why_not(self) -> str | None:
        """Why the block does not fit the registers, or threads cannot share this out; None when they can."""
        knobs, conv = self.knobs, self.conv
        if knobs.block not in blocks(conv, self.target, self.way):
            return "sums and weights would not fit the registers"
        if self.threads > 1 and knobs.split == FILTERS and knobs.order == INPUT_STATIONARY:
            return "threads would meet after every block of windows"
        if self.threads > 1 and knobs.split == BANDS and self.bands < min(self.threads, conv.n * conv.out_h):
            return "fewer bands than threads"
        return None

    @property
    def way(self) -> Multiply:
        """How data and weights are multiplied."""
        return self.ways[self.knobs.multiply]

    def unit_at(self, source: Buffer, at: Index) -> Vector:
        """A unit of data from element ``at`` on in every lane."""
        return self.way.unit_at(source, at, self.lanes)

    @property
    def windows(self) -> int:
        """Windows of a block."""
        return self.knobs.block[0]

    @property
    def vectors(self) -> int:
        """Vectors of filters of a block."""
        return self.knobs.block[1]

    @property
    def bands(self) -> int:
        """Bands of all images."""
        return self.conv.n * ceil_div(self.conv.out_h, self.knobs.rows)

    @property
    def offset(self) -> int:
        """128 where int8 data are multiplied as uint8."""
        return self.way.offset(self.conv)

    @property
    def zero_apart(self) -> int:
        """The weights' zero point where sums of the data take it off: bytes need not hold them without it."""
        bytes_alone = self.way.packed == "int8" and self.conv.weight_dtype == "int8"
        return self.conv.weight_zero if self.conv.is_dynamic and bytes_alone else 0

    @property
    def packed_zero(self) -> int:
        """What is taken off the weights when they are packed."""
        return self.conv.weight_zero - self.zero_apart

    @property
    def band(self) -> Band:
        """Where the windows lie."""
        return Band(self.conv, self.knobs.rows, self.way.data, self.offset, self.way.unit)

    @property
    def depth(self) -> int:
        """Units in a filter."""
        down, across = self.band.runs
        return down * across * self.band.steps

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return self.padded_filters // self.lanes * self.packed_vector

    @property
    def packed_vector(self) -> int:
        """Elements of the packed weights of one vector of filters."""
        return self.short.vector if self.short else self.lanes * self.depth * self.way.unit

    @property
    def packed_dtype(self) -> str:
        """The type of weights that are multiplied."""
        return self.way.packed

    @property
    def short(self) -> ShortSums | None:
        """How sums are begun in int16, where they are."""
        parts = PARTS.get(self.way.name)
        return ShortSums(parts, self.depth, self.lanes, self.way.name in WIDE) if parts else None

    def offsets(self) -> Array:
        """Where the data of each unit begin, from those of the window."""
        down, across = self.band.runs
        starts = [self.band.tap(row, column) for row in range(down) for column in range(across)]
        steps = np.arange(self.band.steps) * self.way.unit
        return (np.array(starts)[:, None] + steps).reshape(-1)


def blocks(conv: QConv2d, target: Target, way: Multiply) -> list[Block]:
    """(windows, vectors) whose sums fit the registers beside weights, a window and a product."""
    most = max(1, ceil_div(conv.filters, target.lanes("int32")))
    registers = target.integer_vector_registers or way.registers or target.vector_registers
    parts = PARTS.get(way.name)
    found = []
    for vectors in range(1, min(most, 4) + 1):
        if parts is None:
            windows = (registers - 2 - vectors) // vectors
            found += [(w, vectors) for w in range(max(2, windows - 2), windows + 1)]
            continue
        windows = (registers - 4 - parts * vectors) // vectors
        # Few windows for as many weights are slower than one vector.
        found += [(w, vectors) for w in range(windows - 2, windows + 1) if w >= 4]
    return found
