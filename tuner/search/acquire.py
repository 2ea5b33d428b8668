"""Which points to try next: those of the largest expected improvement, several at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from tuner.search.features import Matrix
from tuner.search.posterior import Posterior

Goals = Callable[[], tuple[Matrix, Matrix]]
"""For every point the log seconds that it has to beat, and how much beating them is worth."""


def batch(
    posterior: Posterior, new: npt.NDArray[np.bool_], goals: Goals, expect: Callable[[int], None], n: int
) -> list[int]:
    """Up to ``n`` places of points that are ``new``, the most promising first.

    Each that is chosen is believed to cost what is expected of it before the next one is: ``expect`` tells
    whoever keeps the goals.
    """
    chosen: list[int] = []
    open_points = np.flatnonzero(new)
    while len(chosen) < n and len(open_points):
        bounds, worth = goals()
        gain = worth[open_points] * expected_improvement(posterior, open_points, bounds)
        if gain.max() <= 0:  # too small for a float: the order is that of the expected costs
            gain = np.array([-posterior.mean(place) for place in open_points.tolist()])
        place = int(open_points[int(np.argmax(gain))])
        chosen.append(place)
        open_points = open_points[open_points != place]
        expect(place)
    return chosen


def expected_improvement(
    posterior: Posterior, places: Sequence[int] | npt.NDArray[np.int64], bounds: Matrix
) -> Matrix:
    """By how much each of the points at ``places`` is expected to be below its bound, in log seconds."""
    total = np.zeros(len(places))
    for belief in posterior.beliefs:
        spread = belief.spread[places]
        behind = (bounds[places] - belief.mean[places]) / spread
        density = np.exp(-(behind**2) / 2) / math.sqrt(2 * math.pi)
        total += belief.share * spread * np.maximum(behind * _below(behind) + density, 0.0)
    return total


def _below(values: Matrix) -> Matrix:
    """The normal distribution function."""
    return np.array([math.erfc(-value / math.sqrt(2)) / 2 for value in values])
