"""Quantized convolution with groups on Arm: outer products of a window's channels and fours of filters.

The channels are lanes of a vector, which a padded copy of the input makes possible for groups of any size.
"""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.int8 import requantize
from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.grouped import cost
from kernels.int8.arm.grouped.emit import emit
from kernels.int8.arm.grouped.pack import tiles
from kernels.int8.arm.grouped.plan import DOT, LANE, Plan
from kernels.int8.arm.operands import signedness
from kernels.int8.arm.plan import why_not_neon
from kernels.int8.kernel import QuantizedKernel
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

WINDOWS = (1, 2, 4, 6, 7, 8, 12)
BANDS = (1, 2, 4, 8, 14)


class GroupedPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack_centered = tiles
    body = emit


class QuantizedGroupsNeon(QuantizedKernel):
    """Direct convolution of any groups; its knobs are those of ``plan.Knobs``."""

    name = "qgrouped_neon"
    version = 2
    plan_type = GroupedPlan

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Only grouped convolutions on Arm with NEON, those with one filter to each channel excepted."""
        if workload.groups == 1:
            return "not grouped"
        return "one filter to each channel" if workload.is_depthwise else why_not_neon(target)

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Blocks whose sums fit the registers, whole planes and parts of them."""
        most = ceil_div(workload.filters, QUAD)
        dots = target.has("dotprod") and signedness(workload) is not None
        return {
            "multiply": [LANE, *[DOT] * dots],
            "block": [
                f"{windows}x{quads}"
                for quads in range(1, min(most, 4) + 1)
                for windows in WINDOWS
                if windows <= workload.out_w and windows * quads + quads < target.vector_registers
            ],
            "rows": [*(band for band in BANDS if band < workload.out_h), workload.out_h],
            "requant": requantize.choices(workload, target),
        }
