"""Depthwise convolution in NCHW, vectorised over columns and without a copy (seed 001: compute directly)."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.float.depthwise.kernel import why_not_depthwise
from kernels.float.depthwise.plan import GROUPS, ROWS
from kernels.float.depthwise_rows import cost
from kernels.float.depthwise_rows.emit import emit
from kernels.float.depthwise_rows.plan import Plan
from kernels.kernel import Array, Kernel, KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.base import Conv2d


class DepthwiseRowsPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    body = emit

    def pack(self, weights: Array) -> Array:
        """As they are: [channel][tap]."""
        return weights.reshape(-1)


class DepthwiseRows(Kernel[Conv2d]):
    """Convolution of every channel by a filter of its own, along rows at least as long as a vector.

    Its knobs are those of ``plan.Knobs``.
    """

    name = "depthwise_rows"
    workload_type = Conv2d
    plan_type = DepthwiseRowsPlan

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """Only convolutions with as many groups as channels, column stride 1 or 2, and long rows."""
        reason = why_not_depthwise(workload)
        if reason is not None:
            return reason
        if workload.stride[1] > 2:
            return f"column stride {workload.stride[1]} is above 2"
        shortest = target.lanes()
        if workload.out_w < shortest or workload.in_w < shortest * workload.stride[1]:
            return f"its rows are shorter than a vector of {shortest}"
        return None

    def knobs(self, workload: Conv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Register blocks that leave half of the registers to values and taps; larger ones spill."""
        vectors = ceil_div(workload.out_w, target.lanes())
        return {
            "rows": [rows for rows in (1, 2, 3, 4, 6) if rows <= workload.out_h],
            "vectors": [wide for wide in (1, 2, 3, 4) if wide <= vectors],
            **({"split": [GROUPS, ROWS]} if threads > 1 else {}),
        }
