"""The transforms of Winograd's minimal filtering F(m x m, 3 x 3), for m = 2 and m = 4.

Y = A' [(G g G') * (B' d B)] A for one tile: d is (m + 2) x (m + 2), g is 3 x 3, Y is m x m. The points are
0, 1, -1 (m = 2) and 0, 1, -1, 2, -2 (m = 4), and infinity. Source: Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", section 4; the sums are arranged so that terms are shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_G = {
    2: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
    4: [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ],
}

Times = Callable[[float, Any], Any]
"""Multiplies a value, which may be a vector expression, by a constant."""


def filters(m: int, weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Weights (filters, channels, 3, 3) as (m + 2, m + 2, filters, channels), in float64."""
    g = np.array(_G[m], np.float64)
    transformed: npt.NDArray[np.float64] = np.einsum(
        "ai,kcij,bj->abkc", g, weights.astype(np.float64), g, optimize=True
    )
    return transformed


def forward(m: int, x: Sequence[Any], times: Times) -> list[Any]:
    """B' applied to m + 2 values."""
    if m == 2:
        return [x[0] - x[2], x[1] + x[2], x[2] - x[1], x[1] - x[3]]
    even, odd = x[4] - times(4, x[2]), x[3] - times(4, x[1])
    wide, narrow = x[4] - x[2], times(2, x[3] - x[1])
    first, last = x[4] + times(4, x[0]) - times(5, x[2]), x[5] + times(4, x[1]) - times(5, x[3])
    return [first, even + odd, even - odd, wide + narrow, wide - narrow, last]


def backward(m: int, x: Sequence[Any], times: Times) -> list[Any]:
    """A' applied to m + 2 values: m results."""
    near, near_difference = x[1] + x[2], x[1] - x[2]
    if m == 2:
        return [x[0] + near, near_difference - x[3]]
    far, far_difference = x[3] + x[4], x[3] - x[4]
    return [
        x[0] + near + far,
        near_difference + times(2, far_difference),
        near + times(4, far),
        near_difference + times(8, far_difference) + x[5],
    ]


def twice(
    m: int, one: Callable[..., list[Any]], tile: Sequence[Sequence[Any]], times: Times, bind: Any
) -> list[list[Any]]:
    """``one`` over the columns and then the rows of a tile (rows of values): the transform in 2-D.

    ``bind`` makes a value computed once, however often it is used.
    """
    columns = [[bind(value) for value in one(m, column, times)] for column in zip(*tile, strict=True)]
    return [one(m, row, times) for row in zip(*columns, strict=True)]
