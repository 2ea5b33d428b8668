"""Evolution led by a learned ranking model: of many children, those it ranks best are tried."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from kernels.space import Config
from tuner.cost_model import CostModel
from tuner.problem import Problem
from tuner.strategies.base import Family
from tuner.strategies.evolution import EvolutionStrategy

POOL = 256
"""Candidates that are ranked for one batch."""
FEW = 8
"""Results below which there is nothing to learn: the kernels' own predictions rank instead."""
BARREN = 20
"""Parents without a new child after which the pool is filled up at random."""
EPSILON = 0.15
"""Share of a batch that is random, so that the model sees what it would never choose."""


class ModelStrategy(EvolutionStrategy):
    """Epsilon-greedy batches from an evolved pool, spread out so that near twins are not tried together."""

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
        pool = self._pool()
        ranked = self._ranked(pool)
        strangers = sum(self.rng.random() < EPSILON for _ in range(n))
        batch = _spread(ranked, n - strangers)
        chosen = set(batch)
        rest = [config for config in pool if config not in chosen]
        self.rng.shuffle(rest)
        return batch + rest[: n - len(batch)]

    def _pool(self) -> list[Config]:
        """New configs of every kernel in the race, by its share: half children of good ones, half random."""
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
        """Up to ``quota`` new configs of one kernel."""
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
        """The pool, the config expected to be fastest first."""
        if not pool:
            return []
        if sum(cost is not None for cost in self._results.values()) < FEW:
            return sorted(pool, key=self.problem.predict)
        self._model.fit(list(self._results.items()))
        order = np.argsort(self._model.predict(pool), kind="stable")
        return [pool[at] for at in order]


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
    if one.kernel != other.kernel:
        return len(one.knobs)
    return sum(first != second for first, second in zip(one.knobs, other.knobs, strict=True))
