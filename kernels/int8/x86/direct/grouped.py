"""Quantized convolution with groups of few filters on x86: several groups at a time, as one with zeros."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.int8.constants import check_weights
from kernels.int8.x86.direct.kernel import DirectPlan, QuantizedDirect
from kernels.int8.x86.direct.plan import Plan
from kernels.int8.x86.instructions import why_not_x86
from kernels.kernel import Array, KnobValues
from kernels.layout import Layouts
from kernels.space import Config
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS, QConv2d

UNIT = 4
"""Channels that one instruction multiplies by each filter of a vector."""


@dataclass(frozen=True)
class MergedPlan(DirectPlan):
    """The plan of merged groups, for weights of the ``original`` ones."""

    original: QConv2d = field(kw_only=True)

    def pack(self, weights: Array) -> Array:
        """Those of the merged groups: blocks of weights on a diagonal, zeros beside them."""
        conv, whole = self.original, self.workload
        check_weights(conv, weights)
        centered = weights.astype(np.int32) - conv.weight_zero
        spread = np.zeros(whole.weight_shape, np.int32)
        for group in range(conv.groups):
            first = group % (conv.groups // whole.groups) * conv.depth
            mine = slice(group * conv.filters, (group + 1) * conv.filters)
            spread[:, :, first : first + conv.depth, mine] = centered[..., mine]
        return self.pack_centered(spread)


class QuantizedGroups(QuantizedDirect):
    """The direct convolution (``kernel.py``) of merged groups, whose filters fill a vector.

    The weights between channels and filters of different groups are zeros, so what is added costs time and
    changes no result. Knobs are those of the direct convolution.
    """

    name = "qgrouped"
    version = 2

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Only on x86, and only groups that have no vector of filters, depthwise ones excepted."""
        if workload.groups == 1:
            return "not grouped"
        if workload.is_depthwise:
            return "one filter to each channel"
        few = workload.filters < target.lanes("int32")
        return why_not_x86(target) or (None if few else "groups have a vector of filters")

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Those of the merged groups."""
        return super().knobs(merged(workload, target), target, layouts, threads)

    def plan(self, workload: QConv2d, config: Config, target: Target, threads: int = 1) -> Plan:
        """That of the merged groups."""
        return MergedPlan.of(merged(workload, target), config, target, threads, original=workload)


@cache
def merged(conv: QConv2d, target: Target) -> QConv2d:
    """``conv`` with so many groups taken as one that multiplications and then sums are fewest vectors."""
    lanes = target.lanes("int32")

    def cost(together: int) -> tuple[int, int]:
        sums = conv.groups // together * ceil_div(together * conv.filters, lanes)
        return sums * ceil_div(together * conv.depth, UNIT), sums

    together = min((d for d in range(2, conv.groups + 1) if conv.groups % d == 0), key=cost)
    low, high = conv.weight_range or LIMITS[conv.weight_dtype]
    zero = conv.weight_zero
    # The weights that are added count as zeros.
    return replace(conv, groups=conv.groups // together, weight_range=(min(low, zero), max(high, zero)))
