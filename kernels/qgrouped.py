"""Quantized convolution with groups of few filters on x86: several groups at a time, as one with zeros."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qdirect import QuantizedDirect
from kernels.qkernel import QuantizedKernel, qconv_of
from kernels.qworkload import LIMITS, QConv2d
from kernels.qx86 import why_not_x86
from kernels.space import Config, Space
from kernels.target import Target
from kernels.workload import Workload

UNIT = 4
"""Channels that one instruction multiplies by each filter of a vector."""


class QuantizedGroups(QuantizedKernel):
    """The direct convolution (``kernels/qdirect.py``) of merged groups, whose filters fill a vector.

    The weights between channels and filters of different groups are zeros, so what is added costs time and
    changes no result. Knobs are those of the direct convolution.
    """

    name = "qgrouped"
    version = 2

    def __init__(self) -> None:
        self._direct = QuantizedDirect()

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Grouped convolutions on x86 whose groups have no vector of filters, depthwise ones excepted."""
        if not isinstance(workload, QConv2d):
            return "computes quantized convolutions"
        if workload.groups == 1:
            return "not grouped"
        if workload.groups == workload.in_c == workload.out_c:
            return "one filter to each channel"
        few = workload.out_c // workload.groups < target.vector_bits // 32
        return why_not_x86(target) or (None if few else "groups have a vector of filters")

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """That of the merged groups."""
        space = self._direct.space(merged(qconv_of(workload), target), target, layouts, threads)
        return Space(self.name, space.knobs, space.invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """What the merged groups take."""
        return self._direct.predict(merged(qconv_of(workload), target), config, target, threads)

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """As of the direct convolution."""
        return self._direct.why_inexact(workload, config)

    def offset(self, workload: QConv2d, config: Config) -> int:
        """As of the direct convolution."""
        return self._direct.offset(workload, config)

    def fill(self, conv: QConv2d, config: Config, target: Target, values: Array) -> Array:
        """Each merged group's values, then zeros up to whole vectors."""
        return self._direct.fill(merged(conv, target), config, target, values)

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """Those of the merged groups: blocks of weights on a diagonal, zeros beside them."""
        whole = merged(conv, target)
        filters, depth = conv.out_c // conv.groups, conv.in_c // conv.groups
        spread = np.zeros(whole.weight_shape, weights.dtype)
        for group in range(conv.groups):
            first = group % (conv.groups // whole.groups) * depth
            mine = slice(group * filters, (group + 1) * filters)
            spread[:, :, first : first + depth, mine] = weights[..., mine]
        return self._direct.pack_centered(whole, config, target, spread)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The direct convolution of the merged groups."""
        return self._direct.build(merged(qconv_of(workload), target), config, target, threads, name)


def merged(conv: QConv2d, target: Target) -> QConv2d:
    """``conv`` with so many groups taken as one that multiplications and then sums are fewest vectors."""
    lanes = target.vector_bits // 32
    filters, depth = conv.out_c // conv.groups, conv.in_c // conv.groups

    def cost(together: int) -> tuple[int, int]:
        sums = conv.groups // together * -(-together * filters // lanes)
        return sums * -(-together * depth // UNIT), sums

    together = min((d for d in range(2, conv.groups + 1) if conv.groups % d == 0), key=cost)
    low, high = conv.weight_range or LIMITS[conv.weight_dtype]
    zero = conv.weight_zero
    # The weights that are added count as zeros.
    return replace(conv, groups=conv.groups // together, weight_range=(min(low, zero), max(high, zero)))
