"""Direct quantized convolution on x86: windows are broadcast in units of channels, filters are vectors.

The sums stay in registers from the bias to the requantized result. Where the input is not of the type that
is multiplied, or needs padding, a band of its rows is copied right before it is used.
"""

from __future__ import annotations

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.int8 import requantize
from kernels.int8.kernel import QuantizedKernel, QuantizedPlan
from kernels.int8.x86.direct import cost
from kernels.int8.x86.direct.emit import emit
from kernels.int8.x86.direct.pack import filled_groups, share_that_fits, tiles
from kernels.int8.x86.direct.plan import (
    BANDS,
    FILTERS,
    INPUT_STATIONARY,
    WEIGHT_STATIONARY,
    Plan,
    blocks,
)
from kernels.int8.x86.instructions import WIDE, Multiply, ways, why_not_x86
from kernels.kernel import Array, KnobValues
from kernels.layout import Layouts
from kernels.space import Config
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

ENOUGH = 0.7
"""The share of steps from which on it pays to begin sums of weights of 8 bits in int16: steps that do not fit
take twice as long as pairs of int16."""


class DirectPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack_centered = tiles
    fill = filled_groups
    body = emit


class QuantizedDirect(QuantizedKernel):
    """Direct convolution by vpmaddwd, vpmaddubsw or VNNI; its knobs are those of ``plan.Knobs``."""

    name = "qdirect"
    version = 3
    dynamic = True
    plan_type = DirectPlan

    def tile_rows(self, plan: QuantizedPlan) -> int | None:
        """Those of the block."""
        assert isinstance(plan, Plan)
        return plan.windows

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Only on x86, and only groups that have at least a vector of filters."""
        if workload.groups > 1 and workload.filters < target.lanes("int32"):
            return "groups have fewer filters than a vector"
        return why_not_x86(target)

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """All ways, blocks that fit the registers, whole planes and bands for L1 and L2, both orders."""
        return self.knobs_of(ways(workload, target), workload, target, threads)

    def knobs_of(self, found: list[Multiply], workload: QConv2d, target: Target, threads: int) -> KnobValues:
        """The knobs with these ways to multiply."""
        fitting = [block for way in found for block in blocks(workload, target, way)]
        return {
            "multiply": [way.name for way in found],
            "block": list(dict.fromkeys(f"{windows}x{vectors}" for windows, vectors in fitting)),
            "rows": bands(workload),
            "order": [WEIGHT_STATIONARY, INPUT_STATIONARY],
            "prefetch": [0, 1],
            "requant": requantize.choices(workload, target),
            **({"split": [BANDS, FILTERS]} if threads > 1 else {}),
        }

    def suited(
        self, workload: QConv2d, config: Config, target: Target, threads: int, weights: Array
    ) -> Config:
        """Where few sums of these weights may begin in int16, none do."""
        plan = DirectPlan.of(workload, config, target, threads)
        if config["multiply"] not in WIDE:
            return config
        if share_that_fits(plan, weights.astype(np.int32) - plan.packed_zero) >= ENOUGH:
            return config
        space = self.exact_part(workload, self.space(workload, target, config.layouts, threads))
        return min(
            (each for each in space if each["multiply"] not in WIDE),
            key=lambda each: self.predict(workload, each, target, threads),
        )


def bands(conv: QConv2d) -> list[int]:
    """The whole plane, or fewer rows: enough for two blocks of windows at least."""
    least = ceil_div(12, conv.out_w)
    return sorted({min(conv.out_h, max(ceil_div(conv.out_h, count), least)) for count in (1, 2, 4, 7, 14)})
