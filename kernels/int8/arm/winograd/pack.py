"""The order of the transformed filters of the exact Winograd convolution on Arm."""

from __future__ import annotations

import numpy as np

from kernels.int8.arm.winograd.plan import Plan
from kernels.kernel import Array


def at_points(plan: Plan, weights: Array) -> Array:
    """[pass][point] of [tap and step] as the block packs them, int16."""
    conv, points = plan.conv, plan.points
    # (kh, kw, channel, filter) to (across, along, channel, filter)
    turned = weights if plan.along else weights.swapaxes(0, 1)
    filled = np.zeros((plan.across, plan.groups * points.taps, plan.channels, conv.out_c), np.int64)
    filled[:, : turned.shape[1], : conv.in_c] = turned
    grouped = filled.reshape(plan.across, plan.groups, points.taps, plan.channels, conv.out_c)
    values = np.einsum("pt,agtcf->pagcf", points.filters, grouped).astype(plan.packed_dtype)
    steps = values.reshape(points.count, -1, plan.block.depth, plan.passes, plan.knobs.filters)
    return np.concatenate(
        [plan.block.pack(point[:, :, turn]) for turn in range(plan.passes) for point in steps]
    )
