"""How good a search was on a space of which every point is known, by the field's methodology.

A score of 0 is uniform random search, without seeds or predictions; 1 has the optimum at once. It is the
mean, over the trials of a space's budget, of how much of the way from random search to the optimum was gone.
The budget is what random search takes to go 95 % of the way from the median to the optimum (Willemsen and
others, "A methodology for comparing auto-tuning optimization algorithms", 2024; the package
``autotuning_methodology``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Curve = npt.NDArray[np.float64]
CUTOFF = 0.95
"""The part of the way from the median to the optimum that random search goes in a space's budget."""


@dataclass(frozen=True)
class Scored:
    """``score`` as above; ``regret`` is how much slower than the optimum, in parts of it, the best known
    config is after each trial, as the mean over the runs."""

    score: float
    regret: Curve


def random_search(costs: Collection[float | None], trials: int) -> Curve:
    """The expected best seconds of uniform random search without repetition after 1, 2, ... ``trials``.

    A config that failed (None) counts as the slowest. Raises ValueError when none ran.
    """
    values = np.sort(_finite(costs))
    size = len(values)
    # The best of n is the i-th fastest where all others are among the slower ones.
    place = np.arange(size)
    curve = np.empty(min(trials, size))
    shares = np.full(size, 1.0 / size)  # of n = 1: each is the best equally often
    for n in range(1, len(curve) + 1):
        curve[n - 1] = shares @ values
        # C(size - i - 1, n) / C(size, n + 1) from C(size - i - 1, n - 1) / C(size, n)
        shares = shares * np.maximum(size - place - n, 0) / n * (n + 1) / max(size - n, 1)
    return np.concatenate([curve, np.full(trials - len(curve), values[0])])


def budget(costs: Collection[float | None]) -> int:
    """Trials over which a search is scored on this space."""
    values = _finite(costs)
    best = values.min()
    goal = best + (1 - CUTOFF) * (float(np.median(values)) - best)
    reached = np.flatnonzero(random_search(costs, len(values)) <= goal * (1 + 1e-12))
    return int(reached[0]) + 1


def scored(costs: Collection[float | None], runs: Sequence[Sequence[float]], trials: int) -> Scored:
    """Score runs of one strategy, each the best seconds known after its trials, infinite before one ran.

    A run that ended early keeps its best. ``trials`` is how many were asked for: so many regrets there are,
    and the score is that of these trials, or of the space's budget where that is less.
    """
    values = _finite(costs)
    best, counted = values.min(), min(budget(costs), trials)
    curves = np.array([_extended(run, trials, values.max()) for run in runs]).mean(axis=0)
    random = random_search(costs, counted)
    left = random - best
    gone = (random - curves[: len(random)])[left > 0] / left[left > 0]
    return Scored(float(gone.mean()) if len(gone) else 1.0, curves[:trials] / best - 1)


def _extended(run: Sequence[float], length: int, slowest: float) -> Curve:
    values = np.minimum([*run[:length], *[run[-1] if run else math.inf] * (length - len(run))], slowest)
    return np.asarray(values, dtype=np.float64)


def _finite(costs: Collection[float | None]) -> Curve:
    """All costs, failures as the slowest that ran; raises ValueError when none ran."""
    ran = [cost for cost in costs if cost is not None]
    if not ran:
        raise ValueError("a space of which no config ran has no score")
    return np.array([max(ran) if cost is None else cost for cost in costs])
