"""The sizes of one config of a depthwise convolution beside a pointwise one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.float.chain.pair import Buffers, PairPlan
from kernels.float.depthwise.kernel import DepthwisePlan
from kernels.float.depthwise.plan import Knobs as DepthwiseKnobs
from kernels.float.depthwise.plan import lanes_for
from kernels.kernel import Array, Resident
from kernels.knobs import Block, KnobSet
from kernels.layout import NHWC, Layouts
from kernels.workload.base import Conv2d

LOAD, LANE = "load", "lane"
STRIP = 8
"""Vectors of channels that take turns in each block of windows of the depthwise convolution in NHWC."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``block`` is windows x vectors of the pointwise convolution in registers, ``columns`` the windows of a
    block of the depthwise one.

    Where the depthwise one comes first, ``rows`` of its result, of all channels, are kept for the other.
    Where it comes second, as many rows are kept as its filter reaches, of the vectors of a block alone.
    ``broadcast`` is how an element of a window comes into all lanes: it is loaded so, or it is a ``lane`` of
    a vector that was loaded.
    """

    block: Block
    columns: int
    rows: int = 1
    broadcast: str = LOAD


@dataclass(frozen=True)
class SeparablePlan(PairPlan):
    """The pointwise convolution's results are counted in vectors of channels, and groups of ``together``
    vectors; the last of either overlaps the one before it."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why the sums do not fit the registers, or None when they do."""
        windows, vectors = self.knobs.block
        beside = windows + 1 if self.knobs.broadcast == LANE else vectors + 1
        if windows * vectors + beside > self.target.vector_registers:
            return "sums and filters would not fit the registers"
        if self.knobs.broadcast == LANE and self.pointwise.in_c % self.lanes:
            return "the channels are not whole vectors"
        return self.depthwise_plan.why_not()

    @property
    def spreads_first(self) -> bool:
        """Whether the depthwise convolution comes first."""
        return self.workload.first.groups > 1

    @property
    def depthwise(self) -> Conv2d:
        """The depthwise convolution."""
        return self.workload.first if self.spreads_first else self.workload.second

    @property
    def pointwise(self) -> Conv2d:
        """The pointwise convolution."""
        return self.workload.second if self.spreads_first else self.workload.first

    @cached_property
    def depthwise_plan(self) -> DepthwisePlan:
        """How the depthwise convolution is computed where channels lie innermost."""
        knobs = DepthwiseKnobs(self.knobs.columns, strip=STRIP if self.layouts.data == NHWC else 1)
        return DepthwisePlan(self.depthwise, self.target, 1, knobs, layouts=Layouts(NHWC, NHWC))

    @property
    def lanes(self) -> int:
        """Channels of a vector."""
        return lanes_for(self.pointwise.out_c, self.target)

    @property
    def vectors(self) -> int:
        """Vectors of the pointwise convolution's result."""
        return ceil_div(self.pointwise.out_c, self.lanes)

    @property
    def together(self) -> int:
        """Vectors of a group."""
        return min(self.knobs.block[1], self.vectors)

    @property
    def groups(self) -> int:
        """Groups of vectors."""
        return ceil_div(self.vectors, self.together)

    @property
    def ring(self) -> int:
        """Rows that the depthwise convolution's filter reaches."""
        conv = self.depthwise
        return (conv.kh - 1) * conv.dilation[0] + 1

    @property
    def between(self) -> int:
        """Elements of what is kept between the two."""
        conv = self.depthwise
        if self.spreads_first:
            return self.knobs.rows * conv.out_w * conv.out_c
        return self.ring * conv.in_w * self.together * self.lanes

    @property
    def lengths(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """As they are packed."""
        pointwise = self.groups * self.pointwise.in_c * self.together * self.lanes
        wide, deep = (
            (pointwise, self.pointwise.out_c),
            (self.depthwise_plan.packed_length, self.depthwise.out_c),
        )
        return (deep, wide) if self.spreads_first else (wide, deep)

    def packed_points(self, weights: Array) -> Array:
        """[group][channel of the input][vector of the group][channel of the vector]."""
        channels, lanes = self.pointwise.out_c, self.lanes
        starts = [min(group * self.together, self.vectors - self.together) for group in range(self.groups)]
        taken = [
            min((start + each) * lanes, channels - lanes) + lane
            for start in starts
            for each in range(self.together)
            for lane in range(lanes)
        ]
        packed = weights.reshape(channels, -1)[taken].reshape(self.groups, -1, self.pointwise.in_c)
        return np.ascontiguousarray(packed.transpose(0, 2, 1)).reshape(-1)

    def constants(self, inputs: Sequence[Array]) -> list[Array]:
        """Packed filters and bias of both."""
        rest = list(inputs[1:])
        found = []
        for part in self.workload.parts:
            weights = rest.pop(0)
            bias = rest.pop(0) if part.epilogue.bias else np.zeros(part.out_c, np.float32)
            packed = (
                self.depthwise_plan.pack(weights) if part is self.depthwise else self.packed_points(weights)
            )
            found += [packed, bias]
        return found

    @abstractmethod
    def body(self, args: Buffers) -> None:
        """Emit the code."""

    def residents(self) -> list[Resident]:
        """What is between, and the filters that are read for each block of windows."""
        filters = 4 * self.pointwise.in_c * self.together * self.lanes
        return [
            Resident("L2", "result between", 4 * self.between),
            Resident("L1", "filters of a group", filters),
        ]
