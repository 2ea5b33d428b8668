"""The order of the packed, transformed weights of a Winograd convolution."""

from __future__ import annotations

import numpy as np

from kernels.float.winograd.products_plan import ProductsPlan
from kernels.kernel import Array


def panels(plan: ProductsPlan, weights: Array) -> Array:
    """[point][panel][channel][filter of the panel], transformed in float64 and then rounded."""
    conv = plan.conv
    filled = np.zeros((plan.points, conv.in_c, plan.panels * plan.width), np.float32)
    filled[:, :, : conv.out_c] = plan.filters(weights).transpose(0, 2, 1)
    ordered = filled.reshape(plan.points, conv.in_c, plan.panels, plan.width).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(ordered).reshape(-1)
