"""The order of the packed weights of the depthwise convolution."""

from __future__ import annotations

import numpy as np

from kernels.float.depthwise.plan import Plan
from kernels.kernel import Array


def groups(plan: Plan, weights: Array) -> Array:
    """[group of channels][tap][channel of the group]; a last group that overlaps repeats channels."""
    taps = weights.reshape(-1, plan.conv.taps)
    starts = [min(group * plan.width, len(taps) - plan.width) for group in range(plan.groups)]
    packed = np.stack([taps[start : start + plan.width].T for start in starts])
    return np.ascontiguousarray(packed).reshape(-1)
