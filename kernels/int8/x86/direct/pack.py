"""The order of the packed weights of the direct quantized convolution, and of what depends on a filter."""

from __future__ import annotations

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.int8.x86.direct.plan import Plan
from kernels.kernel import Array

PACKED_AT_ONCE = 1 << 18
"""Units of tiles that are packed together: more at a time is faster and takes more memory."""


def filled_groups(plan: Plan, values: Array) -> Array:
    """Each group's values, then zeros up to whole vectors."""
    groups = values.reshape(plan.conv.groups, -1)
    return np.pad(groups, ((0, 0), (0, plan.filters - groups.shape[1]))).reshape(-1)


def tiles(plan: Plan, weights: Array) -> Array:
    """[group][tile][run][step][filter of the tile][channel of the unit], filled with zeros; where sums begin
    in int16, each tile as ``ShortSums.pack`` has it."""
    conv, band, lanes, unit = plan.conv, plan.band, plan.lanes, plan.way.unit
    down, across = band.runs
    # (kh, kw, channel, group, filter) to (group, filter, run, element of the run)
    ordered = weights.reshape(conv.kh, conv.kw, conv.depth, conv.groups, conv.filters)
    ordered = ordered.transpose(3, 4, 0, 1, 2).reshape(conv.groups, conv.filters, down * across, band.run)
    filled = np.zeros((conv.groups, plan.filters, down * across, band.steps * unit), plan.packed_dtype)
    filled[:, : conv.filters, :, : band.run] = ordered
    filled = filled.reshape(conv.groups, plan.filters, plan.depth, unit)
    parts = []
    for group in range(conv.groups):
        for first, vectors, count in plan.filter_tiles():
            size = vectors * lanes
            mine = filled[group, first * lanes : first * lanes + count * size]
            mine = mine.reshape(count, size, plan.depth, unit)
            if plan.short:
                some = ceil_div(PACKED_AT_ONCE, plan.depth)
                chunks = [mine[at : at + some] for at in range(0, count, some)]
                parts += [plan.short.pack(chunk, plan.offsets()) for chunk in chunks]
            else:
                parts.append(mine.transpose(0, 2, 1, 3).reshape(-1))
    return np.ascontiguousarray(np.concatenate(parts))
