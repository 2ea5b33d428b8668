"""The order of SConv's packed weights."""

from __future__ import annotations

import numpy as np

from kernels.float.sconv.plan import Plan
from kernels.kernel import Array


def tiles(plan: Plan, weights: Array) -> Array:
    """Channel set, filter tile, channel, tap, filter: the micro-kernel's order (section 6.3)."""
    conv = plan.conv
    padded = np.zeros((plan.filter_tiles * plan.filters, conv.in_c, conv.taps), np.float32)
    padded[: conv.out_c] = weights.reshape(conv.out_c, conv.in_c, conv.taps)
    tiled = padded.reshape(plan.filter_tiles, plan.filters, conv.in_c, conv.taps).transpose(0, 2, 3, 1)
    step = plan.knobs.channels
    sets = [tiled[:, start : start + step].reshape(-1) for start in range(0, conv.in_c, step)]
    return np.ascontiguousarray(np.concatenate(sets))
