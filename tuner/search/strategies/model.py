"""Evolution led by a learned ranking model: of many children, those it ranks best are tried."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from kernels.space import Config
from tuner.search.cost_model import CostModel
from tuner.search.problem import Problem
from tuner.search.strategies.base import Family
from tuner.search.strategies.evolution import EvolutionStrategy

POOL = 256
"""Candidates that are ranked for one batch."""
FEW = 8
"""Results below which there is nothing to learn: the kernels' own predictions rank instead."""
BARREN = 20
"""Parents without a new child after which the pool is filled up at random."""
EPSILON = 0.15
"""Share of a batch that is random, so that the model sees what it would never choose."""


class ModelStrategy(EvolutionStrategy):
    """Learns from the trials which configs are fast, and tries the best of many that evolution makes.

    Its batches are epsilon-greedy, and spread out so that near twins are not tried together.
    """

    name = "model"

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        super().__init__(problem, rng)
        self._model = CostModel(problem, seed=rng.randrange(2**31))
        self._results: dict[Config, float | None] = {}

    def tell(self, results: Sequence[tuple[Config, float | None]]) -> None:
        """Learn costs in seconds; None is a config that failed."""
        super().tell(results)
        self._results.update(results)

    def suggest(self, n: int) -> list[Config]:
        """The best of a pool by the model, and a few at random."""
        siblings = self.siblings(n)
        pool = [config for config in self._pool() if config not in siblings]
        wanted = n - len(siblings)
        strangers = sum(self.rng.random() < EPSILON for _ in range(wanted))
        batch = _spread(self._ranked(pool), wanted - strangers)
        chosen = set(batch)
        rest = [config for config in pool if config not in chosen]
        self.rng.shuffle(rest)
        return siblings + batch + rest[: wanted - len(batch)]

    def _pool(self) -> list[Config]:
        """New configs of every family in the race, by its share: half children of good ones, half random."""
        shares = {kernel: share for kernel, share in self.shares().items() if share}
        # The losers come back when those in the race are exhausted.
        for weights in (shares, dict.fromkeys(self.families, 1.0)):
            pool: list[Config] = []
            for kernel, weight in weights.items():
                quota = max(1, round(POOL * weight / sum(weights.values())))
                pool += self._brood(self.families[kernel], quota)
            if pool:
                return pool
        return []

    def _brood(self, family: Family, quota: int) -> list[Config]:
        """Up to ``quota`` new configs of one family."""
        brood: set[Config] = set()
        barren = 0
        while len(brood) < quota // 2 and barren < BARREN:
            config = self.child(family, brood)
            if config is None:
                barren += 1
            else:
                brood.add(config)
        self.random_batch(quota - len(brood), [family.space], brood)
        return sorted(brood, key=lambda config: config.key)

    def _ranked(self, pool: list[Config]) -> list[Config]:
        """The pool, first the config that promises most against what it has to beat in its layouts."""
        if not pool:
            return []
        bounds = self.bounds()
        if sum(cost is not None for cost in self._results.values()) < FEW:
            expected = np.log([max(self.problem.predict(config), 1e-12) for config in pool])
        else:
            self._model.fit(list(self._results.items()))
            expected = self._model.predict(pool)
        if not any(map(math.isinf, bounds.values())):
            expected = expected - np.log([bounds[config.layouts] for config in pool])
        return [pool[at] for at in np.argsort(expected, kind="stable")]


def _spread(ranked: list[Config], n: int) -> list[Config]:
    """The first ``n`` that differ from each other in more than one knob, filled up with the next best."""
    batch: list[Config] = []
    for config in ranked:
        if len(batch) == n:
            return batch
        if all(_distance(config, other) > 1 for other in batch):
            batch.append(config)
    chosen = set(batch)
    return batch + [config for config in ranked if config not in chosen][: n - len(batch)]


def _distance(one: Config, other: Config) -> int:
    if one.family != other.family:
        return len(one.knobs)
    return sum(first != second for first, second in zip(one.knobs, other.knobs, strict=True))
