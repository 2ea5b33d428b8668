"""Direct grouped convolution, vectorised over output columns.

Each group's planes are used where they lie, copied only where padding or stride force it, one group at a time
so that the copy stays in cache.
"""

from __future__ import annotations

from kernels.float.grouped import cost
from kernels.float.grouped.emit import emit
from kernels.float.grouped.pack import blocks
from kernels.float.grouped.plan import FILTERS, GROUPS, Plan
from kernels.kernel import Kernel, KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.base import Conv2d


class GroupedPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack = blocks
    body = emit


class Grouped(Kernel[Conv2d]):
    """Convolution of several groups of channels; its knobs are those of ``plan.Knobs``."""

    name = "grouped"
    version = 3
    workload_type = Conv2d
    plan_type = GroupedPlan

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """Only convolutions of more than one group, of more than one filter or channel each."""
        if workload.groups == 1:
            return "needs more than one group"
        return "is depthwise" if workload.is_depthwise else None

    def knobs(self, workload: Conv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Register blocks that fit the registers, in rows or flat."""
        conv = workload
        # Rows of output lie a stride apart in the copy: only with a stride of one is a plane one long row.
        can_flatten = conv.stride[0] == 1 and conv.out_h > 1 and conv.out_w % target.lanes()
        return {
            "filters": sorted({min(filters, conv.filters) for filters in (1, 2, 4, 6)}),
            "rows": [rows for rows in (1, 2, 3, 4, 6) if rows <= conv.out_h],
            "vectors": [1, 2, 3, 4],
            "flat": [0, 1] if can_flatten else [0],
            **({"split": [GROUPS, FILTERS]} if threads > 1 else {}),
        }
