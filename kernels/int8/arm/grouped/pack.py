"""The order of the packed weights of the quantized convolution with groups on Arm."""

from __future__ import annotations

import numpy as np

from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.grouped.plan import Plan
from kernels.kernel import Array


def tiles(plan: Plan, weights: Array) -> Array:
    """[group][tile][tap][unit][filter of the tile, filled up to fours][channel of the unit]."""
    conv, unit = plan.conv, plan.unit
    # (tap, channel, group, filter) to (group, filter, tap, unit, channel of it)
    ordered = weights.reshape(conv.taps, conv.depth, conv.groups, conv.filters).transpose(2, 3, 0, 1)
    ordered = np.pad(ordered, ((0, 0),) * 3 + ((0, plan.channels - conv.depth),))
    ordered = ordered.reshape(*ordered.shape[:3], -1, unit)
    parts = []
    for tile in plan.tiles:
        end = tile.first + tile.count * tile.filters
        mine = ordered[:, tile.first : end].reshape(
            conv.groups, tile.count, tile.filters, conv.taps, -1, unit
        )
        mine = np.pad(mine, ((0, 0), (0, 0), (0, tile.quads * QUAD - tile.filters), *((0, 0),) * 3))
        parts.append(mine.transpose(0, 1, 3, 4, 2, 5).reshape(conv.groups, -1))
    packed: Array = np.concatenate(parts, axis=1).astype(plan.packed_dtype).reshape(-1)
    return packed
