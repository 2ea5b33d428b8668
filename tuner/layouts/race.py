"""Which pairs of layouts are worth a task's trials: those that no other pair beats, conversions included."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from kernels.layout import Layouts
from kernels.workload.base import Workload

CONVERTED_BYTES_S = 4e9
"""How fast a tensor is read in one layout and written in another, both counted: rather slow, so that a pair
is given up only where it loses for sure."""


@cache
def detour_s(workload: Workload, pair: Layouts, other: Layouts) -> float:
    """About how many seconds of conversions it takes to let a config of ``other`` stand in for ``pair``."""
    shapes = ((pair.data, other.data, workload.data_shape), (pair.out, other.out, workload.out_shape))
    moved = sum(2 * 4 * math.prod(shape) for one, another, shape in shapes if one != another)
    return moved / CONVERTED_BYTES_S


def bounds(workload: Workload, best_s: Mapping[Layouts, float]) -> dict[Layouts, float]:
    """The least seconds that each pair can be had for: by its own best, or by another's and conversions.

    ``best_s`` has infinity for a pair of which nothing ran.
    """
    return {
        pair: min(seconds + detour_s(workload, pair, other) for other, seconds in best_s.items())
        for pair in best_s
    }
