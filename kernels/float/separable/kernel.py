"""A depthwise convolution and a pointwise one, in either order, as one kernel.

What MobileNets are made of. The result between is larger than either end, often larger than the caches, and
needed for a few rows only: seed 004's idea, with slices and layouts as processors want them.
"""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.float.depthwise.kernel import why_not_depthwise
from kernels.float.depthwise.plan import most_columns
from kernels.float.separable import cost
from kernels.float.separable.emit import emit
from kernels.float.separable.plan import LANE, LOAD, SeparablePlan
from kernels.kernel import Kernel, KnobValues
from kernels.layout import NCHW, Layouts, layouts_for
from kernels.target import Target
from kernels.workload.base import Conv2d, ConvChain

ROWS = (1, 2, 3, 4, 6, 8)
BLOCKS = tuple((windows, vectors) for vectors in (1, 2, 3, 4, 6) for windows in (4, 5, 6, 7, 8, 12, 14))


class EmittedPlan(SeparablePlan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    body = emit


class Separable(Kernel[ConvChain]):
    """A depthwise convolution before or after a pointwise one; its knobs are those of ``plan.Knobs``."""

    name = "separable"
    version = 1
    workload_type = ConvChain
    plan_type = EmittedPlan

    def why_unfit(self, workload: ConvChain, target: Target) -> str | None:
        """One of the two is depthwise, and the other an ordinary matrix product of pixels."""
        first, second = workload.parts
        reasons = [
            _why_not_points(first) or why_not_depthwise(second),
            why_not_depthwise(first) or _why_not_points(second),
        ]
        return (
            None
            if None in reasons
            else f"as pointwise, then depthwise: {reasons[0]}; the other way: {reasons[1]}"
        )

    def layouts(self, workload: ConvChain, target: Target) -> tuple[Layouts, ...]:
        """Channels innermost or in blocks, as each end can be."""
        first, second = workload.parts
        ends = (layouts_for(first.in_c, target), layouts_for(second.out_c, target))
        return tuple(Layouts(data, out) for data in ends[0] for out in ends[1] if NCHW not in (data, out))

    def knobs(self, workload: ConvChain, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Register blocks that fit, and slices of a few rows where the depthwise convolution comes first."""
        first, second = workload.parts
        spreads_first = first.groups > 1
        spread, points = (first, second) if spreads_first else (second, first)
        fewest = ceil_div(spread.out_w, most_columns(spread, target))
        widest = ceil_div(points.out_c, target.lanes())
        blocks = [
            f"{windows}x{vectors}"
            for windows, vectors in BLOCKS
            if vectors <= widest and windows * vectors + vectors + 1 <= target.vector_registers
        ]
        return {
            "block": blocks,
            "columns": sorted({ceil_div(spread.out_w, parts) for parts in (fewest, 2 * fewest, 3 * fewest)}),
            "broadcast": [LOAD, LANE] if target.isa.name == "aarch64" else [LOAD],
            "rows": sorted({min(rows, second.out_h) for rows in (ROWS if spreads_first else (1,))}),
        }


def _why_not_points(conv: Conv2d) -> str | None:
    """Why ``conv`` is no product of pixels, or None when it is."""
    return None if conv.is_pointwise else f"{conv} is not pointwise"
