"""A surrogate made for few trials: a Gaussian process, and what it expects to gain most by."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from kernels.layout import Layouts
from kernels.space import Config
from tuner.search import acquire
from tuner.search.features import Features, Matrix
from tuner.search.posterior import Posterior
from tuner.search.problem import Problem
from tuner.search.strategies.base import Strategy

FIRST = 4
"""How many of the recommended configs are tried whatever the model says."""
LISTED = 100_000
"""Combinations of knobs up to which the model looks at every point of a space."""
POOL = 4096
"""Points that it looks at most; of more, a random part."""
DECAY = 6.0
"""How fast a pair of layouts loses weight that is behind the best pair: by e for a sixth."""


class ModelStrategy(Strategy):
    """Learns from the trials what every config will cost and how sure that is, and tries what promises most.

    The few best recommended configs come first. Then a Gaussian process over knobs, layouts and predicted
    time gives the expected improvement. Trials under way are believed to cost what is expected of them, so a
    batch spreads out. A config has to beat the best of its layouts, or that of others with conversions.
    """

    name = "model"

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        super().__init__(problem, rng)
        self.seeds = self._first(problem.seeds)
        self._results: dict[Config, float | None] = {}

    def begin_with(self, seeds: Sequence[Config]) -> None:
        """The first few of them alone: the model knows the others."""
        super().begin_with(seeds)
        self.seeds = tuple(seeds[:FIRST])

    def tell(self, results: Sequence[tuple[Config, float | None]]) -> None:
        """Learn costs in seconds; None is a config that failed."""
        super().tell(results)
        self._results.update(results)

    def suggest(self, n: int) -> list[Config]:
        """The configs of the largest expected improvement; random ones where the model has none left."""
        new = np.array([self.is_new(config) for config in self._points])
        hopeful = np.array([config.family not in self.hopeless for config in self._points])
        new = new & hopeful if (new & hopeful).any() else new
        if new.any():
            levels = self._learn()
            chosen = acquire.batch(
                self._posterior, new, lambda: self._goals(levels), lambda at: self._expect(at, levels), n
            )
            found = [self._points[place] for place in chosen]
        else:
            found = []
        return found + self.random_batch(n - len(found), self.problem.space.spaces, set(found))

    def _first(self, seeds: Sequence[Config]) -> tuple[Config, ...]:
        """The analysis's config, and of the others those predicted fastest."""
        rest = sorted(seeds[1:], key=self.problem.predict)
        return (*seeds[:1], *rest[: FIRST - 1])

    @cached_property
    def _points(self) -> list[Config]:
        if self.problem.size <= LISTED:
            points = list(self.problem.space)
            if len(points) > POOL:
                points = self.rng.sample(points, POOL)
        else:
            points = self.random_batch(POOL, self.problem.space.spaces, set())
        return list(dict.fromkeys([*self.seeds, *points]))

    @cached_property
    def _places(self) -> dict[Config, int]:
        return {config: place for place, config in enumerate(self._points)}

    @cached_property
    def _features(self) -> Features:
        return Features(self.problem, self._points)

    @cached_property
    def _posterior(self) -> Posterior:
        return Posterior(self._features, self.rng.randrange(2**31))

    def _learn(self) -> dict[Layouts, float]:
        """Have the posterior learn all results, and expect those under way; the least seconds of each pair of
        layouts.

        A config that failed counts as the slowest that ran. Before one ran, predictions of what was asked
        stand for its cost.
        """
        told = {self._places[c]: cost for c, cost in self._results.items() if c in self._places}
        waiting = sorted(self._places[c] for c in self._seen - self._results.keys() if c in self._places)
        if not any(told.values()):
            predicted = np.exp(self._features.log_predicted)
            told |= {place: float(predicted[place]) for place in waiting or [int(predicted.argmin())]}
            waiting = []
        slowest = max(cost for cost in told.values() if cost is not None)
        logs = [math.log(slowest if cost is None else cost) for cost in told.values()]
        self._posterior.learn(list(told), logs)
        levels = dict.fromkeys(self._layouts.values(), math.inf)
        for place, cost in told.items():
            layouts = self._points[place].layouts
            levels[layouts] = min(levels[layouts], math.inf if cost is None else cost)
        for place in waiting:
            self._expect(place, levels)
        return levels

    def _expect(self, place: int, levels: dict[Layouts, float]) -> None:
        self._posterior.expect(place)
        layouts = self._points[place].layouts
        levels[layouts] = min(levels[layouts], math.exp(self._posterior.mean(place)))

    def _goals(self, levels: dict[Layouts, float]) -> tuple[Matrix, Matrix]:
        """What each point has to beat, log seconds, and what that is worth."""
        bounds = self.problem.bounds(levels)
        least = min(bounds.values())
        logs = np.array([math.log(bounds[config.layouts]) for config in self._points])
        return logs, np.exp(-DECAY * (logs - math.log(least)))
