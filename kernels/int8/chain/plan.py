"""The sizes that one config of a chain of quantized convolutions implies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.chains.memory import why_no_room
from kernels.chains.slices import CHANNELS, DEPTH, Slices
from kernels.int8.chain.pair import QPairPlan
from kernels.int8.constants import check_scale, check_weights, folded_bias
from kernels.int8.hvx.instructions import BYTES
from kernels.kernel import Array, Resident
from kernels.knobs import Block, KnobSet
from kernels.workload.base import QConv2d

KEPT, AGAIN = "kept", "again"
MIDDLE = 128
"""What is added to weights, and to int8 data, so that they are unsigned."""
TOGETHER = 4
"""Pixels of 32 channels in a vector."""
PIXEL = 8
"""Words between the sums of two pixels."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``h_split`` blocks of ``height`` rows and ``k_split`` blocks of 32 channels are a slice; ``adjacent``
    is as for floats; ``block`` is windows x vectors of 32 channels in registers, at most."""

    h_split: int
    k_split: int
    height: int
    adjacent: str
    block: Block


@dataclass(frozen=True)
class QChainPlan(QPairPlan):
    """A function of data, the ``CONSTANTS`` of either convolution (one a channel, filled up to blocks of 32),
    and the result, NHWC."""

    knobs: Knobs

    @cached_property
    def slices(self) -> Slices:
        """How the chain is sliced."""
        knobs, (first, second) = self.knobs, self.workload.parts
        return Slices(first, second, knobs.height, knobs.h_split, knobs.k_split, knobs.adjacent == KEPT)

    def together(self, part: QConv2d) -> int:
        """Vectors of channels in registers: as many as divide all slices of channels."""
        total = self.slices.channel_blocks(part)
        common = math.gcd(total, min(total, self.knobs.k_split))
        return max(count for count in range(1, self.knobs.block[1] + 1) if common % count == 0)

    @property
    def caches(self) -> Mapping[str, int]:
        """Bytes of each cache, and of the sums of pixels."""
        return {**self.slices.cache_elements, "sums of pixels": 4 * PIXEL * self.pixels}

    @property
    def fast_size(self) -> int:
        """Bytes of fast memory that it takes: filters, which begin at a whole vector."""
        return self.threads * (self.slices.filters + BYTES)

    @property
    def pixels(self) -> int:
        """Pixels of a cache that have a sum, at most; they are added up four at a time."""
        caches = self.slices.source, self.slices.between
        return max(each.rows * ceil_div(each.columns, TOGETHER) * TOGETHER for each in caches)

    def why_not(self) -> str | None:
        """Why registers or the fast memory do not suffice; None when they do."""
        windows, vectors = self.knobs.block
        if windows * vectors + 2 * vectors > self.target.integer_vector_registers:
            return "sums and filters would not fit the registers"
        if self.threads > 1 and (self.knobs.adjacent == KEPT or self.slices.count < self.threads):
            return "threads share out slices, which have no rows in common"
        return why_no_room(self.target, self.fast_size)

    @staticmethod
    def offset(part: QConv2d) -> int:
        """What is added to its data, so that they are unsigned."""
        return MIDDLE if part.data_dtype == "int8" else 0

    def packed(self, part: QConv2d, weights: Array) -> Array:
        """OIHW8i32o4i of ``weight - weight_zero + 128``; what fills up blocks is 128, so adds nothing."""
        outs, ins = ceil_div(part.out_c, CHANNELS), ceil_div(part.in_c, CHANNELS)
        filled = np.full((part.kh, part.kw, ins * CHANNELS, outs * CHANNELS), MIDDLE, np.int32)
        filled[:, :, : part.in_c, : part.out_c] = weights.astype(np.int32) - part.weight_zero + MIDDLE
        split = filled.reshape(part.kh, part.kw, ins, CHANNELS // DEPTH, DEPTH, outs, CHANNELS)
        ordered = split.transpose(5, 2, 0, 1, 3, 6, 4).reshape(-1)
        return np.ascontiguousarray(ordered).astype(np.uint8)

    def constants(self, inputs: Sequence[Array]) -> list[Array]:
        """The constants of both; ValueError for those that the workload excludes."""
        found: list[Array] = []
        rest = list(inputs[1:])
        for part in self.workload.parts:
            weights, bias, multiplier, shift = rest[:4]
            rest = rest[4:]
            check_weights(part, weights)
            check_scale(part, multiplier, shift)
            padding = (0, -part.out_c % CHANNELS)
            arrays = [folded_bias(part, weights, bias, self.offset(part)), multiplier, shift]
            each = [np.pad(np.broadcast_to(array, (part.out_c,)), padding, mode="edge") for array in arrays]
            found += [self.packed(part, weights), *(array.astype(np.int32) for array in each)]
        return found

    def stored(self) -> list[tuple[str, list[int]]]:
        """Blocks of filters, and as many channels."""
        sizes = []
        for part in self.workload.parts:
            blocks = self.slices.channel_blocks(part)
            sizes.append(("uint8", [blocks * self.slices.filter_block(part), *[blocks * CHANNELS] * 3]))
        return sizes

    def residents(self) -> list[Resident]:
        """The caches that are to stay in L2: all but that of filters, where there is fast memory for it."""
        fast = ["filters"] if self.target.fast_bytes else []
        return [
            Resident("L2", f"cache: {name}", size) for name, size in self.caches.items() if name not in fast
        ]
