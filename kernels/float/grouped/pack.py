"""The order of the packed weights of the grouped convolution."""

from __future__ import annotations

import numpy as np

from kernels.arithmetic import even
from kernels.float.grouped.plan import Plan
from kernels.kernel import Array


def blocks(plan: Plan, weights: Array) -> Array:
    """[group][block of filters][channel][tap][filter of the block]."""
    conv = plan.conv
    grouped = weights.reshape(conv.groups, conv.filters, conv.depth, conv.taps)
    parts, first = [], 0
    for filters, count in even(conv.filters, plan.knobs.filters):
        part = grouped[:, first : first + filters * count]
        part = part.reshape(conv.groups, count, filters, conv.depth, conv.taps)
        parts.append(part.transpose(0, 1, 3, 4, 2).reshape(conv.groups, -1))
        first += filters * count
    return np.ascontiguousarray(np.concatenate(parts, axis=1)).reshape(-1)
