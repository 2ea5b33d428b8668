"""The order of the packed, transformed weights of a Winograd convolution."""

from __future__ import annotations

import numpy as np

from kernels.float.winograd.plan import Plan
from kernels.kernel import Array


def panels(plan: Plan, weights: Array) -> Array:
    """[point][panel][channel][filter of the panel], transformed in float64 and then rounded."""
    conv = plan.conv
    filled = np.zeros((plan.points, conv.in_c, plan.panels * plan.width), np.float32)
    transformed = plan.transform.filters(weights).reshape(plan.points, conv.out_c, conv.in_c)
    filled[:, :, : conv.out_c] = transformed.transpose(0, 2, 1)
    ordered = filled.reshape(plan.points, conv.in_c, plan.panels, plan.width).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(ordered).reshape(-1)
