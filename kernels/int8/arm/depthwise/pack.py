"""The order of the packed weights of the quantized depthwise convolution on Arm."""

from __future__ import annotations

import numpy as np

from kernels.int8.arm.depthwise.plan import Plan
from kernels.kernel import Array


def taps(plan: Plan, weights: Array) -> Array:
    """Taps of all channels, of the type that is multiplied."""
    return np.pad(weights.astype(plan.packed_dtype).reshape(-1), (0, plan.slack))
