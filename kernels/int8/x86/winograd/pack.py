"""The transformed filters of the exact quantized Winograd convolution, and their order."""

from __future__ import annotations

import numpy as np

from kernels.int8.x86.winograd.plan import Plan
from kernels.kernel import Array


def points(plan: Plan, weights: Array) -> Array:
    """[point][tile of filters][pair of channels][filter of the tile][channel of the pair]."""
    conv = plan.conv
    down, across = (np.array(axis.filters) for axis in plan.axes)
    transformed = np.einsum("ir,js,rsck->ijck", down, across, weights.astype(np.int64))
    filled = np.zeros((plan.points, 2 * plan.units, plan.filters), plan.packed_dtype)
    filled[:, : conv.in_c, : conv.out_c] = transformed.reshape(plan.points, conv.in_c, conv.out_c)
    pairs = filled.reshape(plan.points, plan.units, 2, plan.filters).transpose(0, 3, 1, 2)
    parts = []
    for point in pairs:
        for first, vectors, count in plan.filter_tiles():
            size = vectors * plan.lanes
            panel = point[first * plan.lanes :][: count * size].reshape(count, size, plan.units, 2)
            parts.append(panel.transpose(0, 2, 1, 3).reshape(-1))
    return np.ascontiguousarray(np.concatenate(parts))
