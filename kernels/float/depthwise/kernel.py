"""Depthwise convolution: every channel by a filter of its own, vectorised over channels.

Where channels lie innermost, windows are read where they are. In NCHW, the planes of one vector of channels
at a time are turned into that form and back, in cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernels.arithmetic import ceil_div
from kernels.float.depthwise import cost
from kernels.float.depthwise.emit import emit
from kernels.float.depthwise.pack import groups
from kernels.float.depthwise.plan import GROUPS, ROWS, Plan, lanes_of, most_columns
from kernels.kernel import Kernel, KnobValues
from kernels.layout import NHWC, PLAIN, Layouts, layouts_for
from kernels.space import Value
from kernels.target import Target
from kernels.workload.base import Conv2d

STRIPS = (1, 8)
"""Groups of channels that take turns in NHWC."""


class DepthwisePlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack = groups
    body = emit


class Depthwise(Kernel[Conv2d]):
    """Convolution of every channel by a filter of its own; its knobs are those of ``plan.Knobs``."""

    name = "depthwise"
    workload_type = Conv2d
    plan_type = DepthwisePlan

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """Only convolutions with as many groups as channels in and out."""
        return why_not_depthwise(workload)

    def layouts(self, workload: Conv2d, target: Target) -> tuple[Layouts, ...]:
        """Every layout, the output in that of the input."""
        return tuple(Layouts(word, word) for word in layouts_for(workload.in_c, target))

    def knobs(self, workload: Conv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Register blocks that fit the registers beside a row of taps and a value."""
        conv, knobs = workload, dict[str, Sequence[Value]]()
        fewest = ceil_div(conv.out_w, most_columns(conv, target))
        knobs["columns"] = sorted({ceil_div(conv.out_w, parts) for parts in (fewest, 2 * fewest, 3 * fewest)})
        if layouts.data == NHWC:
            lanes = lanes_of(conv, target)
            knobs["vectors"] = [1, 2] if conv.in_c >= 2 * lanes else [1]
            knobs["strip"] = sorted({min(strip, conv.n * ceil_div(conv.in_c, lanes)) for strip in STRIPS})
        if threads > 1:
            knobs["split"] = [GROUPS] if layouts == PLAIN else [GROUPS, ROWS]
        return knobs


def why_not_depthwise(conv: Conv2d) -> str | None:
    """Why ``conv`` has not one filter a channel, or None when it has."""
    return None if conv.is_depthwise and conv.groups > 1 else "needs as many groups as channels in and out"
