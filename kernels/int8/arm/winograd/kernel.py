"""Exact Winograd convolution of 8-bit integers on Arm, along one axis, in int16 and int32.

Tiles of F(m, r) (``points.py``) lie along rows of the data, or along columns for filters one column wide:
what the other axis has of taps is summed up at the points, so it may have any number.
"""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.int8 import requantize
from kernels.int8.arm.plan import why_not_neon
from kernels.int8.arm.winograd import cost
from kernels.int8.arm.winograd.emit import emit
from kernels.int8.arm.winograd.pack import at_points
from kernels.int8.arm.winograd.plan import LANES, Plan, algorithms, axis_of, taps_along
from kernels.int8.kernel import QuantizedKernel
from kernels.isa.arm import ARM32
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

MOST_TAPS = 7


class WinogradPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack_centered = at_points
    body = emit


class QuantizedWinogradNeon(QuantizedKernel):
    """Winograd's algorithm with fewer products; its knobs are those of ``plan.Knobs``."""

    name = "qwinograd_neon"
    version = 2
    plan_type = WinogradPlan

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """At least three taps along the axis, no stride, dilation or groups, numbers that fit, and no
        instructions for dot products."""
        if workload.groups > 1 or max(*workload.stride, *workload.dilation) > 1:
            return "needs stride, dilation and groups of 1"
        if not 3 <= taps_along(workload) <= MOST_TAPS:
            return f"needs 3 to {MOST_TAPS} taps along an axis"
        if not algorithms(workload):
            return "its numbers do not fit 16 and 32 bits"
        if target.has("dotprod"):
            return "an instruction for dot products does four times as many, which is more than is saved"
        return why_not_neon(target)

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """The algorithms whose numbers fit, blocks of up to 8x8, and parts of image and filters."""
        found, filters = algorithms(workload), workload.out_c
        lines = (workload.out_w, workload.out_h)[axis_of(workload)]
        return {
            "points": sorted({points for points, _ in found}),
            "taps": sorted({taps for _, taps in found}),
            "rows": [3, 4, 6, 7, 8] if target.isa is not ARM32 else [2, 3, 4],
            "columns": [min(LANES, filters)],
            "band": sorted({ceil_div(lines, parts) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)}),
            "slab": [1, 2, 4, 8],
            "filters": sorted({filters, *(c for c in (32, 64, 96, 128) if filters % c == 0)}),
            "requant": requantize.choices(workload, target),
        }
