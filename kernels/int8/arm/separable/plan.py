"""The sizes of one config of a quantized depthwise convolution beside a pointwise one on Arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kernels.int8 import requantize
from kernels.int8.arm.depthwise.kernel import DepthwisePlan
from kernels.int8.arm.depthwise.plan import APART, BAND, ways_to_multiply
from kernels.int8.arm.depthwise.plan import Knobs as DepthwiseKnobs
from kernels.int8.arm.gemm.kernel import GemmPlan
from kernels.int8.arm.gemm.plan import TILES
from kernels.int8.arm.gemm.plan import Knobs as GemmKnobs
from kernels.int8.arm.operands import signedness, why_not_chained
from kernels.int8.chain.pair import CONSTANTS, QPairPlan
from kernels.kernel import Array, Resident
from kernels.knobs import KnobSet
from kernels.workload.base import QConv2d
from kernels.workload.qconv2d import LIMITS, Byte

WORDS_SLAB, BYTES_SLAB = 2, 16
"""Tiles of windows together before a depthwise convolution: of transformed words, and of others."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``block``, ``rows``, ``columns``, ``rows_from`` and ``slab`` are those of the pointwise convolution's
    matrix product, ``tile`` the windows of the depthwise one in registers.

    Where the pointwise one comes first, ``chunk`` channels of its result at a time meet the other. Where it
    comes second, it takes ``lines`` rows at a time of the other's result, of one of ``strips`` strips of
    columns after the other: the rows that both read are shorter then, and nearer.
    """

    block: str
    rows: int
    columns: int
    rows_from: str
    slab: int
    tile: int
    chunk: int
    lines: int
    strips: int


@dataclass(frozen=True)
class QSeparablePlan(QPairPlan):
    """Rows of what the depthwise convolution reads, padded, take turns in a cache of as many as its filter
    reaches: made by the pointwise convolution, or copied from the input.

    Bytes that no one but this kernel sees are of the sign that is multiplied.
    """

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why there is no such matrix product, or there are no such strips; None when there are."""
        if self.knobs.strips > 1 and (why := self._why_no_strips):
            return why
        if not self.spreads_first and self.knobs.slab != self.slab:
            return f"{self.knobs.rows_from} of {self.knobs.block} meet all filters by {self.slab}"
        return self.points_plan.why_not()

    @property
    def slab(self) -> int:
        """Tiles of windows that meet all filters together where the pointwise convolution comes first. Words
        that were transformed take so much of L1 that rows beside them do not stay; bytes take little."""
        return WORDS_SLAB if self.knobs.block == "lane" and self.knobs.rows_from == TILES else BYTES_SLAB

    @property
    def _why_no_strips(self) -> str | None:
        conv, strips = self.depthwise, self.knobs.strips
        if not self.spreads_first or self.knobs.lines > 1:
            return "strips are of one row that is multiplied next"
        if conv.out_w % strips:
            return f"{conv.out_w} columns are not {strips} equal strips"
        step = conv.out_w // strips * conv.stride[1]
        if step < conv.pad[1] or (strips - 2) * step - conv.pad[1] + self.depthwise_plan.columns > conv.in_w:
            return "padding reaches into the second strip"
        return None

    @property
    def spreads_first(self) -> bool:
        """Whether the depthwise convolution comes first."""
        return self.workload.first.is_depthwise

    @cached_property
    def parts(self) -> tuple[QConv2d, QConv2d]:
        """Both convolutions; what is between them, or is copied, is of the sign that is multiplied."""
        first, second = self.workload.parts
        if first.is_depthwise:
            first = _of_data(first, "int8")
        between: Byte = "uint8" if signedness(second) is False else "int8"
        return _of_results(first, between), _of_data(second, between)

    @property
    def depthwise(self) -> QConv2d:
        """The depthwise convolution."""
        return self.parts[0 if self.spreads_first else 1]

    @property
    def pointwise(self) -> QConv2d:
        """The pointwise convolution."""
        return self.parts[1 if self.spreads_first else 0]

    @property
    def turns(self) -> int:
        """How many runs of channels there are."""
        return self.depthwise.in_c // self.knobs.chunk

    @cached_property
    def depthwise_plan(self) -> DepthwisePlan:
        """How the depthwise convolution of a strip is computed from padded rows."""
        conv, knobs = self.depthwise, self.knobs
        reach = (conv.kw - 1) * conv.dilation[1] + 1
        across = (self.width - 1) * conv.stride[1] + reach
        conv = replace(conv, in_w=across, pad=(conv.pad[0], 0, conv.pad[2], 0))
        way = str(requantize.choices(conv, self.target)[0])
        multiply = ways_to_multiply(conv)[-1]
        return DepthwisePlan(
            conv, self.target, 1, DepthwiseKnobs(way, multiply, BAND, 1, knobs.tile, knobs.chunk, APART)
        )

    @cached_property
    def points_plan(self) -> GemmPlan:
        """The matrix product of a run of the pointwise convolution's pixels."""
        conv = self.pointwise
        if self.spreads_first:
            return self.product(replace(conv, n=1, in_h=self.knobs.lines, in_w=self.width))
        return self.product(replace(conv, n=1, in_h=1, out_c=self.knobs.chunk))

    def product(self, conv: QConv2d) -> GemmPlan:
        """The matrix product for some of the pixels and channels, in the exact way to scale."""
        knobs = self.knobs
        chain = 2 if knobs.block == "pairwise" and why_not_chained(conv) is None else 1
        way = str(requantize.choices(conv, self.target)[0])
        gemm = GemmKnobs(way, knobs.block, knobs.rows, knobs.columns, chain, knobs.rows_from, knobs.slab)
        return GemmPlan(conv, self.target, 1, gemm)

    @property
    def width(self) -> int:
        """Columns of the depthwise convolution's result in a strip."""
        return self.depthwise.out_w // self.knobs.strips

    @property
    def edges(self) -> tuple[int, int]:
        """Columns of the data that only some strips have: on the left all but the first, where it has
        padding, on the right all but the last."""
        conv, columns = self.depthwise, self.depthwise_plan.columns
        there = conv.in_w + conv.pad[1] - (self.knobs.strips - 1) * self.width * conv.stride[1]
        return min(conv.pad[1], columns), columns - min(columns, there)

    @property
    def ring(self) -> int:
        """Rows in the cache."""
        conv = self.depthwise
        return (conv.kh - 1) * conv.dilation[0] + 1

    @property
    def across(self) -> int:
        """Elements of a row there."""
        conv, columns = self.depthwise, self.depthwise_plan.columns
        if not self.spreads_first:
            columns = max(columns, conv.pad[1] + conv.in_w)
        return columns * self.knobs.chunk

    @property
    def cached(self) -> int:
        """Elements of the cache; groups of channels may read beyond the last one."""
        return self.ring * self.across + self.depthwise_plan.lanes

    @property
    def between(self) -> int:
        """Elements of what the pointwise convolution reads where it comes second."""
        return self.knobs.lines * self.width * self.depthwise.out_c if self.spreads_first else 0

    def constants(self, inputs: Sequence[Array]) -> list[Array]:
        """The constants of both: those of a pointwise convolution that comes first by runs of channels."""
        rest = list(inputs[1:])
        found: list[Array] = []
        for part in self.parts:
            given, rest = rest[: len(CONSTANTS)], rest[len(CONSTANTS) :]
            if part is self.depthwise:
                found += self.depthwise_plan.constants([inputs[0], *given])
                continue
            size = self.points_plan.conv.out_c
            runs = []
            for start in range(0, part.out_c, size):
                of_run = [a if a.size == 1 < part.out_c else a[..., start : start + size] for a in given]
                runs.append(self.points_plan.constants([inputs[0], *of_run]))
            found += [np.concatenate(each) for each in zip(*runs, strict=True)]
        return found

    def stored(self) -> list[tuple[str, list[int]]]:
        """Those of a pointwise convolution that comes first once for each run of channels."""
        found = []
        for part in self.parts:
            spread = part is self.depthwise
            plan, runs = (self.depthwise_plan, 1) if spread else (self.points_plan, self.runs)
            sizes = (plan.packed_length, plan.padded_filters, plan.padded_scales, plan.padded_scales)
            found.append((plan.packed_dtype, [runs * size for size in sizes]))
        return found

    @property
    def runs(self) -> int:
        """How many times there are constants of the pointwise convolution."""
        return 1 if self.spreads_first else self.turns

    @property
    def near(self) -> list[list[int]]:
        """Elements of the bias, the multipliers and the shifts that a run of channels needs, of the first and
        of the second convolution."""
        spread, points = self.depthwise_plan, self.points_plan
        of_spread = self.knobs.chunk + spread.padded_filters - spread.conv.out_c
        counts = [(spread.conv, of_spread), (points.conv, points.padded_filters)]
        sizes = [[count, *[count if conv.per_channel else 1] * 2] for conv, count in counts]
        return sizes if self.spreads_first else sizes[::-1]

    def residents(self) -> list[Resident]:
        """What is between, and the filters that are read for each row."""
        plan = self.points_plan
        filters = plan.packed_length * (2 if plan.packed_dtype == "int16" else 1)
        return [Resident("L1", "rows of data", self.cached), Resident("L2", "filters", filters)]


def _of_data(conv: QConv2d, dtype: Byte) -> QConv2d:
    """The same sums of data that are shifted to ``dtype``."""
    shift = LIMITS[dtype][0] - LIMITS[conv.data_dtype][0]
    return replace(conv, data_dtype=dtype, data_zero=conv.data_zero + shift)


def _of_results(conv: QConv2d, dtype: Byte) -> QConv2d:
    """The same results, shifted to ``dtype``."""
    shift = LIMITS[dtype][0] - LIMITS[conv.out_dtype][0]
    clamp = (conv.clamp[0] + shift, conv.clamp[1] + shift) if conv.clamp else None
    return replace(conv, out_dtype=dtype, out_zero=conv.out_zero + shift, clamp=clamp)
