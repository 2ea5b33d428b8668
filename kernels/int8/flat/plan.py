"""The sizes that one config implies, and the order of weights and constants.

A row of results, NHWC, is one run of bytes in which channels return after each column. 128 of them are a
block, whatever channels these are, and a tap's data are as many bytes of the copied input, a fixed distance
away. Blocks that begin with the same channel have the same weights: they are a phase. What is left of a row
is a block that ends with the row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kernels.arithmetic import ceil_div, inside
from kernels.emit import machine
from kernels.int8.dot.instructions import WAYS
from kernels.int8.hvx.instructions import BYTES, WORDS
from kernels.int8.kernel import QuantizedPlan
from kernels.int8.x86.instructions import FORK_CYCLES
from kernels.kernel import Array
from kernels.knobs import KnobSet

UNIT = 4
"""Taps of a product, and vectors of sums of a block."""
FINISH_PACKETS, BLOCK_PACKETS = 4.0, 12.0
"""Packets that scale and narrow a vector of sums, and begin a block."""
COPY_PACKETS, ROW_PACKETS, PHASE_PACKETS = 2.2, 20.0, 60.0
"""Packets that copy 128 bytes, and begin a copied row and a phase."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``tall`` rows and ``wide`` blocks are computed together, of ``rows`` rows of output that are worked on
    at a time; ``touch`` says whether these come to the caches in order first, as phases write each some lines
    of them; ``requant`` is how sums are scaled."""

    tall: int
    wide: int
    rows: int
    touch: bool
    requant: str


class Phase(NamedTuple):
    """``number`` phases with ``blocks`` in a row each; the blocks of the first begin at ``first``."""

    first: int
    number: int
    blocks: int


class Tap(NamedTuple):
    """Where the data of a product come from: rows below the block's first, and the filter's column."""

    down: int
    column: int


@dataclass(frozen=True)
class FlatPlan(QuantizedPlan):
    """A config as numbers; sizes are in bytes."""

    knobs: Knobs

    @property
    def row(self) -> int:
        """Of a row of output."""
        return self.conv.out_w * self.conv.out_c

    @property
    def period(self) -> int:
        """From a block to the next of its phase."""
        return math.lcm(self.conv.out_c, BYTES)

    @cached_property
    def phases(self) -> list[Phase]:
        """All phases; the last may be that of the block that ends with the row."""
        blocks, every = self.row // BYTES, self.period // BYTES
        least, more = divmod(blocks, every)
        found = [Phase(0, more, least + 1), Phase(more * BYTES, every - more, least)]
        if self.row % BYTES:
            found.append(Phase(self.row - BYTES, 1, 1))
        return [each for each in found if each.number and each.blocks]

    @cached_property
    def channels(self) -> Array:
        """[phase][vector of a block][lane]: the channel. A vector has each fourth byte of a block."""
        firsts = [each.first + at * BYTES for each in self.phases for at in range(each.number)]
        within = np.arange(WORDS) * UNIT + np.arange(UNIT)[:, None]
        found: Array = (np.array(firsts)[:, None, None] + within) % self.conv.out_c
        return found

    @cached_property
    def taps(self) -> list[Tap]:
        """The taps of all rows that are computed together."""
        conv = self.conv
        downs = {self._down(r, k) for r in range(self.knobs.tall) for k in range(conv.kh)}
        return [Tap(down, column) for down in sorted(downs) for column in range(conv.kw)]

    def _down(self, row: int, kernel_row: int) -> int:
        return row * self.conv.stride[0] + kernel_row * self.conv.dilation[0]

    @cached_property
    def products(self) -> list[list[tuple[int, list[tuple[int, Tap]]]]]:
        """For each four taps: the rows that have some of these, as (place in the four, tap)."""
        conv, found = self.conv, []
        for begin in range(0, len(self.taps), UNIT):
            four = self.taps[begin : begin + UNIT]
            rows = []
            for row in range(self.knobs.tall):
                of_row = {self._down(row, k): k for k in range(conv.kh)}
                mine = [(at, Tap(of_row[t.down], t.column)) for at, t in enumerate(four) if t.down in of_row]
                if mine:
                    rows.append((row, mine))
            found.append(rows)
        return found

    @property
    def products_a_block(self) -> int:
        """Weights of a phase are as many times four vectors."""
        return sum(map(len, self.products))

    @property
    def offset(self) -> int:
        """128 where the data are int8: products take them unsigned."""
        return WAYS["vrmpy"].offset(self.conv)

    @property
    def packed_dtype(self) -> str:
        """The type of weights that are multiplied."""
        return "int8"

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return len(self.channels) * self.products_a_block * UNIT * BYTES

    @property
    def padded_filters(self) -> int:
        """Constants are repeated for each phase."""
        return self.channels.size

    def fill(self, values: Array) -> Array:
        """In the order of ``channels``."""
        return np.ascontiguousarray(values[self.channels.reshape(-1)])

    def pack_centered(self, weights: Array) -> Array:
        """[phase][product][vector][lane][four taps]."""
        conv = self.conv
        by_tap = weights.reshape(conv.kh, conv.kw, conv.out_c)
        packed = np.zeros((len(self.channels), self.products_a_block, UNIT, WORDS, UNIT), np.int8)
        rows = [mine for four in self.products for _, mine in four]
        for number, mine in enumerate(rows):
            for at, tap in mine:
                packed[:, number, :, :, at] = by_tap[tap.down, tap.column][self.channels]
        return packed.reshape(-1)

    @property
    def planes(self) -> list[int]:
        """The columns of the input from which a tap begins, modulo the stride: a copied row has a plane of
        each, so that a tap's columns are neighbours."""
        conv = self.conv
        return sorted({k * conv.dilation[1] % conv.stride[1] for k in range(conv.kw)})

    @property
    def columns(self) -> int:
        """Of a plane."""
        conv = self.conv
        return conv.out_w + (conv.kw - 1) * conv.dilation[1] // conv.stride[1]

    def filled(self, plane: int) -> tuple[int, int]:
        """The range of its columns that lie in the input."""
        conv = self.conv
        return inside(conv.pad[1] - plane, conv.stride[1], self.columns, conv.in_w)

    @property
    def pitch(self) -> int:
        """Of a copied row: whole vectors."""
        return ceil_div(len(self.planes) * self.columns * self.conv.in_c, BYTES) * BYTES

    @property
    def height(self) -> int:
        """Copied rows."""
        return self._down(self.knobs.rows - 1, self.conv.kh - 1) + 1

    @property
    def copied(self) -> int:
        """Of the copy. Whole vectors are stored, so up to one past the end."""
        return self.height * self.pitch + BYTES

    def at(self, tap: Tap) -> int:
        """Where a tap's data are, from those of the block."""
        conv = self.conv
        column, plane = divmod(tap.column * conv.dilation[1], conv.stride[1])
        return tap.down * self.pitch + (self.planes.index(plane) * self.columns + column) * conv.in_c

    @property
    def aligned(self) -> bool:
        """Whether all data of blocks lie at whole vectors."""
        return all(each.first % BYTES == 0 for each in self.phases) and self.conv.in_c % BYTES == 0

    @property
    def footprint(self) -> int:
        """Of all that is touched."""
        return math.prod(self.conv.data_shape) + math.prod(self.conv.out_shape) + self.copied

    @property
    def bands(self) -> int:
        """Of all images."""
        return self.conv.n * ceil_div(self.conv.out_h, self.knobs.rows)

    def why_not(self) -> str | None:
        """Why the config is no point of the space; None when it is."""
        knobs = self.knobs
        if knobs.tall > knobs.rows:
            return "more rows at a time than there are"
        if knobs.wide > max(each.blocks for each in self.phases):
            return "more blocks at a time than a phase has"
        return "fewer bands than threads" if self.threads > self.bands else None

    def cycles(self) -> float:
        """Loads, shuffles and products, scaling, and the copy; of them the order counts."""
        knobs = self.knobs
        fours, products = len(self.products), self.products_a_block
        total = 0.0
        for phase in self.phases:
            wide = min(knobs.wide, phase.blocks)
            loads = wide * len(self.taps) + UNIT * products + 3 * UNIT
            pipes = wide * UNIT * (fours + products / 2 + FINISH_PACKETS * knobs.tall)
            times = ceil_div(phase.blocks, wide) * ceil_div(knobs.rows, knobs.tall)
            total += phase.number * (times * (max(loads, pipes) + BLOCK_PACKETS) + PHASE_PACKETS)
        weights = COPY_PACKETS * UNIT * products * len(self.channels)
        total += weights + self.height * (self.pitch / BYTES * COPY_PACKETS + ROW_PACKETS)
        lines = self.row * knobs.rows / BYTES
        if knobs.touch:
            total += 2 * lines
        elif self.footprint > 0.75 * self.target.l2_bytes:
            total += self.target.dram_cycles * lines
        if self.copied > self.target.l2_bytes // 4 and self.footprint > 0.75 * self.target.l2_bytes:
            # It does not stay in L2, and each phase reads all of it.
            again = self.copied * len(self.channels)
            total += machine.stream_cycles(self.target, again, math.inf)
        shared = ceil_div(self.bands, self.threads) * total
        return shared + (FORK_CYCLES if self.threads > 1 else 0)
