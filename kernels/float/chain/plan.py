"""The sizes that one config of a chain of float convolutions implies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.chains.slices import CHANNELS, DEPTH, Slices
from kernels.float.chain.pair import PairPlan
from kernels.kernel import Array, Resident
from kernels.knobs import Block, KnobSet
from kernels.workload.base import Conv2d

CACHED, DIRECT = "cached", "direct"
KEPT, AGAIN = "kept", "again"


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``h_split`` blocks of ``height`` rows and ``k_split`` blocks of 32 channels are a slice.

    ``adjacent`` rows of the first result, which two slices need, are computed ``again``, as the seed does, or
    ``kept``. ``filters`` are turned on the way to a cache (``cached``, OIHW8i32o4i) or read where they lie
    (``direct``). ``block`` is windows x vectors of filters in registers.
    """

    h_split: int
    k_split: int
    height: int
    adjacent: str
    filters: str
    block: Block


@dataclass(frozen=True)
class ChainPlan(PairPlan):
    """Filters and biases are filled up to whole blocks of channels."""

    knobs: Knobs

    @cached_property
    def slices(self) -> Slices:
        """How the chain is sliced."""
        knobs, (first, second) = self.knobs, self.workload.parts
        return Slices(first, second, knobs.height, knobs.h_split, knobs.k_split, knobs.adjacent == KEPT)

    @property
    def lanes(self) -> int:
        """Elements of a vector; never more than a block of channels."""
        return min(CHANNELS, self.target.lanes())

    @property
    def caches(self) -> Mapping[str, int]:
        """Elements of each cache."""
        sizes = self.slices.cache_elements
        return sizes if self.knobs.filters == CACHED else {**sizes, "filters": 0}

    def why_not(self) -> str | None:
        """Why the block does not fit the registers, or threads the slices; None when they do."""
        windows, vectors = self.knobs.block
        if windows * vectors + vectors + 1 > self.target.vector_registers or vectors * self.lanes > CHANNELS:
            return "sums and filters would not fit the registers"
        if self.threads > 1 and (self.knobs.adjacent == KEPT or self.slices.count < self.threads):
            return "threads share out slices, which have no rows in common"
        return None

    def packed(self, part: Conv2d, weights: Array) -> Array:
        """Filters in OIHW8i32o4i, filled up with zeros, or in the order in which they are read."""
        outs = ceil_div(part.out_c, CHANNELS)
        if part.is_depthwise:
            filled = np.zeros((outs * CHANNELS, part.taps), np.float32)
            filled[: part.out_c] = weights.reshape(part.out_c, part.taps)
            return np.ascontiguousarray(filled.reshape(outs, CHANNELS, -1).transpose(0, 2, 1)).reshape(-1)
        ins = ceil_div(part.in_c, CHANNELS)
        filled = np.zeros((outs * CHANNELS, ins * CHANNELS, part.kh, part.kw), np.float32)
        filled[: part.out_c, : part.in_c] = weights
        split = filled.reshape(outs, CHANNELS, ins, CHANNELS // DEPTH, DEPTH, part.kh, part.kw)
        order = (0, 2, 5, 6, 3, 1, 4) if self.knobs.filters == CACHED else (0, 2, 5, 6, 3, 4, 1)
        return np.ascontiguousarray(split.transpose(order)).reshape(-1)

    def constants(self, inputs: Sequence[Array]) -> list[Array]:
        """Packed filters and bias of both."""
        rest = list(inputs[1:])
        found = []
        for part in self.workload.parts:
            weights = rest.pop(0)
            bias = rest.pop(0) if part.epilogue.bias else np.zeros(part.out_c, np.float32)
            padded = ceil_div(part.out_c, CHANNELS) * CHANNELS
            found += [self.packed(part, weights), np.pad(bias, (0, padded - part.out_c)).astype(np.float32)]
        return found

    @property
    def lengths(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Whole blocks of channels."""
        slices = self.slices

        def sizes(part: Conv2d) -> tuple[int, int]:
            blocks = slices.channel_blocks(part)
            return blocks * slices.filter_block(part), blocks * CHANNELS

        first, second = self.workload.parts
        return sizes(first), sizes(second)

    def residents(self) -> list[Resident]:
        """The caches, which are to stay in L2."""
        return [Resident("L2", f"cache: {name}", 4 * size) for name, size in self.caches.items() if size]
