"""The order of the packed weights of the filter-vectorised convolution."""

from __future__ import annotations

import numpy as np

from kernels.float.fconv.plan import Plan
from kernels.kernel import Array


def tiles(plan: Plan, weights: Array) -> Array:
    """Channel set, filter tile, run of channels, tap, channel, filter; zeros fill the last vector."""
    conv = plan.conv
    filled = np.zeros((plan.vector_count * plan.lanes, conv.in_c, conv.taps), np.float32)
    filled[: conv.out_c] = weights.reshape(conv.out_c, conv.in_c, conv.taps)

    def ordered(part: Array) -> Array:
        filters, channels, taps = part.shape
        run = min(plan.source.run, channels)
        return part.reshape(filters, -1, run, taps).transpose(1, 3, 2, 0).reshape(-1)

    parts = [
        ordered(filled[tile : tile + plan.filters, channel : channel + plan.knobs.channels])
        for channel in range(0, conv.in_c, plan.knobs.channels)
        for tile in range(0, len(filled), plan.filters)
    ]
    return np.ascontiguousarray(np.concatenate(parts))
