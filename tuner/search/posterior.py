"""What is known of the cost of every point of a space after some trials: a Gaussian process, exactly.

Costs are logarithms of seconds. Their covariance is a sum of three parts: one by predicted time, one by knobs
and predicted time among the points of a kernel (less where layouts differ), and an offset of each kernel in
each pair of layouts. How much each part counts, how far each knob reaches, and the noise are not known. So
there are many processes, drawn once, and what they say counts by how well they explain the trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.search.features import Features, Matrix, Places

DRAWS, KEPT = 64, 8
"""Processes that are drawn, and how many of those that explain the trials best are heard."""
JUDGED = 96
"""Trials that processes are judged by; of more, an even choice by cost."""
PART_SPREAD = 0.8
"""How much the three parts' weights differ from draw to draw; this and the next are spreads of logarithms."""
REACH_SPREAD, KNOB_SPREAD = 0.6, 0.6
"""The same for how far all knobs and the prediction reach, and for single knobs."""
NOISE, NOISE_SPREAD = math.exp(-4.0), 1.0
"""The noise's variance over that of costs."""
SPREAD, EVIDENCE = 0.25, 4.0
"""Expected spread of log costs in a space, and how many trials that expectation counts for."""
MOST_TRUST = 1.0
"""How much of the predicted differences the most trusting process expects to be there."""
_NUGGET = 1e-8


@dataclass(frozen=True)
class Process:
    """The scales of one Gaussian process.

    ``parts`` are those of the sum, ``shared`` is how much of what is learned of a kernel in some layouts
    holds in others. ``trust`` is how much of a difference between predictions is expected before any trial.
    """

    parts: tuple[float, float, float]
    shared: float
    predicted_reach: float
    knob_reach: Matrix
    noise: float
    trust: float

    def covariance(self, features: Features, rows: Places, columns: Places) -> Matrix:
        """Between the points at ``rows`` and at ``columns``; 1 for a point and itself."""
        one, other = (features.knobs[at] / self.knob_reach for at in (rows, columns))
        apart = np.maximum((one**2).sum(1)[:, None] + (other**2).sum(1) - 2 * one @ other.T, 0.0)
        predicted = np.subtract.outer(features.predicted[rows], features.predicted[columns])
        predicted = (predicted / self.predicted_reach) ** 2
        kernel = np.equal.outer(features.kernels[rows], features.kernels[columns])
        both = kernel & np.equal.outer(features.layouts[rows], features.layouts[columns])
        alike = self.shared * kernel + (1 - self.shared) * both
        by_prediction, by_knobs, offset = self.parts
        return np.asarray(
            by_prediction * _matern(predicted) + by_knobs * alike * _matern(apart + predicted) + offset * both
        )


@dataclass
class Belief:
    """What one process says after the trials, and by how much it counts: a ``mean`` a point, in log seconds,
    and a ``variance`` in parts of ``scale``."""

    process: Process
    share: float
    mean: Matrix
    variance: Matrix
    scale: float
    explained: Matrix
    """Rows of the triangular factor's inverse times the covariance of trials and points."""

    @property
    def spread(self) -> Matrix:
        """The standard deviation at each point, log seconds."""
        return np.asarray(np.sqrt(np.maximum(self.variance, 1e-10) * self.scale))


@dataclass(frozen=True)
class _Fit:
    """How well a process explains costs (log ``likelihood``); the triangular ``factor`` of their covariance,
    their ``level``, what is left of them by that factor, and the ``scale`` of variances."""

    likelihood: float
    factor: Matrix
    level: float
    rest: Matrix
    scale: float

    @classmethod
    def of(cls, process: Process, features: Features, at: Places, costs: Matrix) -> _Fit:
        """Of the log costs at some places."""
        covariance = process.covariance(features, at, at)
        covariance[np.diag_indices(len(at))] += process.noise + _NUGGET
        factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        beyond = costs - process.trust * features.log_predicted[at]
        ones, values = np.linalg.solve(factor, np.column_stack([np.ones(len(at)), beyond])).T
        level = float(ones @ values / (ones @ ones))
        rest = values - level * ones
        unexplained = EVIDENCE * SPREAD**2 + float(rest @ rest)
        count = EVIDENCE + len(at)
        likelihood = -float(np.log(np.diag(factor)).sum()) - count / 2 * math.log(unexplained)
        return cls(likelihood, factor, level, rest, unexplained / count)


class Posterior:
    """The beliefs about every point of ``features``."""

    def __init__(self, features: Features, seed: int) -> None:
        self._features = features
        random = np.random.default_rng(seed)
        self._processes = [_drawn(features, random) for _ in range(DRAWS)]
        self._all = np.arange(len(features.kernels))
        self.beliefs: list[Belief] = []

    def learn(self, places: Sequence[int], logs: Sequence[float]) -> None:
        """Believe what trials of the points at ``places`` have cost, in log seconds, and nothing before."""
        at, costs = np.asarray(places), np.asarray(logs)
        few = np.sort(np.argsort(costs, kind="stable")[:: math.ceil(len(costs) / JUDGED)])
        fits = [_Fit.of(process, self._features, at[few], costs[few]) for process in self._processes]
        kept = sorted(range(DRAWS), key=lambda draw: -fits[draw].likelihood)[:KEPT]
        shares = np.exp([fits[draw].likelihood - fits[kept[0]].likelihood for draw in kept])
        shares /= shares.sum()
        self.beliefs = []
        for share, draw in zip(shares, kept, strict=True):
            process = self._processes[draw]
            fit = fits[draw] if len(few) == len(at) else _Fit.of(process, self._features, at, costs)
            across = process.covariance(self._features, at, self._all)
            explained = np.asarray(np.linalg.solve(fit.factor, across), dtype=np.float64)
            prior = fit.level + process.trust * self._features.log_predicted
            mean, variance = prior + fit.rest @ explained, 1.0 - (explained**2).sum(axis=0)
            self.beliefs.append(Belief(process, float(share), mean, variance, fit.scale, explained))

    def mean(self, place: int) -> float:
        """The expected log seconds of one point."""
        return float(sum(belief.share * belief.mean[place] for belief in self.beliefs))

    def expect(self, place: int) -> None:
        """Take for granted that the point at ``place`` will cost what is expected of it: a trial under way
        leaves less to learn around it."""
        here = np.array([place])
        for belief in self.beliefs:
            known = belief.explained
            across = belief.process.covariance(self._features, here, self._all)[0] - known[:, place] @ known
            left = max(float(belief.variance[place]), 0.0) + belief.process.noise + _NUGGET
            row = across / math.sqrt(left)
            belief.explained = np.vstack([known, row])
            belief.variance = belief.variance - row**2


def _drawn(features: Features, random: np.random.Generator) -> Process:
    parts = np.exp(PART_SPREAD * random.standard_normal(3))
    knobs = REACH_SPREAD * random.standard_normal() + KNOB_SPREAD * random.standard_normal(
        features.knobs.shape[1]
    )
    return Process(
        parts=tuple(parts / parts.sum()),
        shared=1 / (1 + math.exp(-random.standard_normal())),
        predicted_reach=math.exp(REACH_SPREAD * random.standard_normal()),
        knob_reach=np.exp(knobs) * math.sqrt(features.depth),
        noise=NOISE * math.exp(NOISE_SPREAD * random.standard_normal()),
        trust=MOST_TRUST * random.uniform(),
    )


def _matern(squared: Matrix) -> Matrix:
    """The Matérn covariance of smoothness 5/2 at squared distances."""
    distance = math.sqrt(5) * np.sqrt(squared)
    return np.asarray((1 + distance + distance**2 / 3) * np.exp(-distance))
