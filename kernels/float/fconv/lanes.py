"""The filter-vectorised convolution where an instruction multiplies a vector by a lane of another (Arm).

A window's elements come by vectors: a load serves as many products as a vector has lanes. They have to
lie side by side, in whole vectors.
"""

from __future__ import annotations

from typing import ClassVar

from kernels.arithmetic import ceil_div
from kernels.float.fconv.kernel import FilterConv, FilterConvPlan
from kernels.kernel import KnobValues
from kernels.knobs import Block
from kernels.layout import NCHW, Layouts
from kernels.target import Target
from kernels.workload.base import Conv2d


class LanesPlan(FilterConvPlan):
    """Windows in registers, too."""

    by_lanes: ClassVar[bool] = True


class LanesConv(FilterConv):
    """``fconv`` with other register blocks, for channels that lie side by side."""

    name = "fconv_lanes"
    version = 1
    plan_type = LanesPlan

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """Only ungrouped convolutions of whole vectors of channels, on 64-bit Arm."""
        if target.isa.name != "aarch64":
            return "only 64-bit Arm multiplies by a lane"
        if workload.in_c % target.lanes():
            return f"needs channels in multiples of {target.lanes()}"
        return super().why_unfit(workload, target)

    def layouts(self, workload: Conv2d, target: Target) -> tuple[Layouts, ...]:
        """Any that has channels side by side, to any."""
        return tuple(each for each in super().layouts(workload, target) if each.data != NCHW)

    def blocks(self, target: Target, filters: int) -> list[Block]:
        """(windows, vectors of filters) whose sums fit the registers beside the windows and a filter."""
        most = ceil_div(filters, target.lanes())
        widths = [width for width in (2, 3, 4, 6) if width <= most] or [1]
        return [((target.vector_registers - 2) // (vectors + 1), vectors) for vectors in widths]

    def knobs(self, workload: Conv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Those of ``fconv``, with sets of whole vectors of channels."""
        knobs = super().knobs(workload, target, layouts, threads)
        return {**knobs, "channels": [each for each in knobs["channels"] if int(each) % target.lanes() == 0]}
