"""SConv: direct convolution sliced for the caches, packing on demand (seed 003, sections 4 to 6)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernels import csa, tir
from kernels.kernel import Array, Kernel
from kernels.sconv_nest import Nest
from kernels.sconv_plan import Plan
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Conv2d, Workload


def register_blocks(target: Target) -> list[tuple[int, int]]:
    """(filters, vectors of windows) of the micro-kernels worth trying, the one that fits best first.

    A block needs its accumulators, a vector of windows each and one broadcast filter value in registers.
    """
    registers = target.vector_registers
    blocks = []
    for vectors in range(1, 5):
        filters = (registers - 1 - vectors) // vectors
        if filters >= vectors:
            blocks.append((filters, vectors))
    # Loads for one multiply-add, then fewer filters: their remainder is smaller.
    return sorted(blocks, key=lambda block: (sum(block) / math.prod(block), block[0]))


class SConv(Kernel):
    """Window-vectorised SConv for ungrouped convolution in NCHW.

    Knobs: ``filters`` x ``vectors`` is the register block (n_f and n_win / lanes); ``channels``, ``k2``,
    ``k3`` and ``order`` are the slicing; ``pack`` is 0 when windows are read where they are.
    """

    name = "sconv"

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only ungrouped float32 convolutions."""
        if not isinstance(workload, Conv2d):
            return "not a convolution"
        if workload.groups != 1:
            return "grouped"
        if workload.dtype != "float32":
            return f"dtype {workload.dtype} is not float32"
        return None

    def space(self, workload: Workload, target: Target) -> Space:
        """Register blocks, both orders, and slicings around the analysis's."""
        conv = _conv(workload)
        blocks = register_blocks(target)
        slicings = [
            csa.slice_for(conv, filters, vectors * target.lanes(), order, target)
            for filters, vectors in blocks
            for order in (csa.INPUT_STATIONARY, csa.WEIGHT_STATIONARY)
        ]
        channels = sorted({s.n_c for s in slicings} | set(_channel_sets(conv)))
        knobs: dict[str, list[int | str]] = {
            "block": [f"{filters}x{vectors}" for filters, vectors in blocks],
            "order": [csa.INPUT_STATIONARY, csa.WEIGHT_STATIONARY],
            "channels": list(channels),
            "k2": sorted({s.k2 for s in slicings} | {16, 64, 256}),
            "k3": sorted({s.k3 for s in slicings}),
            "pack": [1, 0],
        }

        def invalid(point: Knobs) -> str | None:
            return Plan.of(conv, Config.of(self.name, **point), target).why_not()

        return Space(self.name, knobs, invalid)

    def recommend(self, workload: Workload, target: Target) -> Config:
        """The slicing of the block that is predicted fastest."""
        conv = _conv(workload)
        candidates = []
        for filters, vectors in register_blocks(target):
            slicing = csa.analyse(conv, filters, vectors * target.lanes(), target)
            candidates.append(
                Config.of(
                    self.name,
                    block=f"{filters}x{vectors}",
                    order=slicing.order,
                    channels=slicing.n_c,
                    k2=slicing.k2,
                    k3=slicing.k3,
                    pack=1,
                )
            )
        return min(candidates, key=lambda config: self.predict(workload, config, target))

    def predict(self, workload: Workload, config: Config, target: Target) -> float:
        """Compute at the block's rate plus the analysis's cost of moving tiles."""
        conv = _conv(workload)
        plan = Plan.of(conv, config, target)
        slicing = csa.Slicing(
            conv, target, plan.filters, plan.width, plan.order, plan.channels, plan.k2, plan.k3
        )
        cycles = conv.flops / (4 * plan.lanes) + slicing.cycles * 0.1
        return cycles / 3e9

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """Channel set, filter tile, channel, tap, filter: the micro-kernel's order (section 6.3)."""
        conv = _conv(workload)
        plan = Plan.of(conv, config, target)
        padded = np.zeros((plan.filter_tiles * plan.filters, conv.in_c, plan.taps), np.float32)
        padded[: conv.out_c] = weights.reshape(conv.out_c, conv.in_c, plan.taps)
        tiled = padded.reshape(plan.filter_tiles, plan.filters, conv.in_c, plan.taps).transpose(0, 2, 3, 1)
        sets = [
            tiled[:, start : start + plan.channels].reshape(-1)
            for start in range(0, conv.in_c, plan.channels)
        ]
        return np.ascontiguousarray(np.concatenate(sets))

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The macro-kernel of section 4.2 around the micro-kernel of section 5."""
        plan = Plan.of(_conv(workload), config, target)
        function = tir.Function(workload, name, plan.packed_length)
        with function as args:
            Nest(plan, args, threads).emit()
        return function.result()


def _conv(workload: Workload) -> Conv2d:
    if not isinstance(workload, Conv2d):
        raise ValueError(f"{workload} is not a convolution")
    return workload


def _channel_sets(conv: Conv2d) -> list[int]:
    sets = []
    channels = conv.in_c
    while channels >= 1:
        if channels == conv.in_c or 64 <= channels * conv.kh * conv.kw <= 4608:
            sets.append(channels)
        channels //= 2
    return sets
