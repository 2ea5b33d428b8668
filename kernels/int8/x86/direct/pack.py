"""The order of the packed weights of the direct quantized convolution, and of what depends on a filter."""

from __future__ import annotations

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.int8.x86.direct.plan import Plan
from kernels.kernel import Array

SAMPLED = 4
"""Tiles that speak for all of a workload's weights."""
PACKED_AT_ONCE = 1 << 18
"""Units of tiles that are packed together: more at a time is faster and takes more memory."""


def filled_groups(plan: Plan, values: Array) -> Array:
    """Each group's values, then zeros up to whole vectors."""
    groups = values.reshape(plan.conv.groups, -1)
    return np.pad(groups, ((0, 0), (0, plan.filters - groups.shape[1]))).reshape(-1)


def tiles(plan: Plan, weights: Array) -> Array:
    """[group][tile][run][step][filter of the tile][channel of the unit], filled with zeros; where sums begin
    in int16, each tile as ``ShortSums.pack`` has it."""
    parts = []
    for group in _filled(plan, weights):
        for first, vectors, count in plan.filter_tiles():
            mine = _tiles_of(plan, group, first, vectors, count)
            if plan.short:
                some = ceil_div(PACKED_AT_ONCE, plan.depth)
                chunks = [mine[at : at + some] for at in range(0, count, some)]
                parts += [plan.short.pack(chunk, plan.offsets()) for chunk in chunks]
            else:
                parts.append(mine.transpose(0, 2, 1, 3).reshape(-1))
    return np.ascontiguousarray(np.concatenate(parts))


def share_that_fits(plan: Plan, weights: Array) -> float:
    """The share of the steps whose sums may begin in int16, of a few tiles; 1 where none do."""
    if plan.short is None:
        return 1.0
    first, vectors, count = next(iter(plan.filter_tiles()))
    mine = _tiles_of(plan, _filled(plan, weights)[0], first, vectors, count)
    packed = plan.short.pack(mine[:: ceil_div(count, SAMPLED)], plan.offsets())
    headers = packed.reshape(-1, vectors * plan.short.vector)[:, :4].copy()
    return float(headers.view(np.int32).mean()) / plan.short.steps


def _filled(plan: Plan, weights: Array) -> Array:
    """(group, filter, depth, channel of the unit), filled with zeros."""
    conv, band, unit = plan.conv, plan.band, plan.way.unit
    down, across = band.runs
    # (kh, kw, channel, group, filter) to (group, filter, run, element of the run)
    ordered = weights.reshape(conv.kh, conv.kw, conv.depth, conv.groups, conv.filters)
    ordered = ordered.transpose(3, 4, 0, 1, 2).reshape(conv.groups, conv.filters, down * across, band.run)
    filled = np.zeros((conv.groups, plan.filters, down * across, band.steps * unit), plan.packed_dtype)
    filled[:, : conv.filters, :, : band.run] = ordered
    return filled.reshape(conv.groups, plan.filters, plan.depth, unit)


def _tiles_of(plan: Plan, group: Array, first: int, vectors: int, count: int) -> Array:
    """(tile, filter, depth, channel of the unit) of ``count`` tiles from vector ``first`` on."""
    size = vectors * plan.lanes
    mine: Array = group[first * plan.lanes : first * plan.lanes + count * size]
    return mine.reshape(count, size, plan.depth, plan.way.unit)
