"""Simulated annealing: one config at a time moves to a neighbour, at first also to slower ones.

Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220 (1983).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from kernels.space import Config
from tuner.search.problem import Problem
from tuner.search.strategies.base import TRIES, Strategy

HOT, COLD, COOLING = 0.3, 0.01, 100
"""Temperatures at the start and after so many trials, in log seconds."""
JUMP = 0.15
"""How often a config of another family is tried, drawn at random."""


class AnnealingStrategy(Strategy):
    """Walks from the recommended config to neighbours: always to faster ones, to slower ones less and less.

    A batch has several neighbours of the config that the walk has reached.
    """

    name = "annealing"

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        super().__init__(problem, rng)
        self._at: tuple[Config, float] | None = None

    def tell(self, results: Sequence[tuple[Config, float | None]]) -> None:
        """Learn costs in seconds, and move to what they allow; None is a config that failed."""
        super().tell(results)
        for config, cost in results:
            if cost is not None and self._moves(config, cost):
                self._at = config, cost

    def suggest(self, n: int) -> list[Config]:
        """Neighbours of where the walk is, and some configs of other families."""
        found: list[Config] = []
        while len(found) < n:
            config = self._next(set(found))
            if config is None:
                break
            found.append(config)
        return found

    def _next(self, taken: set[Config]) -> Config | None:
        others = [family.space for name, family in self.families.items() if name not in self.hopeless]
        if self._at is not None and not (len(others) > 1 and self.rng.random() < JUMP):
            space = self.families[self._at[0].family].space
            for _ in range(TRIES):
                config = space.mutate(self._at[0], self.rng)
                if config is not None and self.is_new(config) and config not in taken:
                    return config
        for spaces in (others, self.problem.space.spaces):
            if batch := self.random_batch(1, spaces, set(taken)):
                return batch[0]
        return None

    def _moves(self, config: Config, cost: float) -> bool:
        """Whether the walk goes on from ``config``: what a config of its layouts must beat is the measure."""
        if config.family not in self.families or self._at is None:
            return config.family in self.families
        bounds = self.bounds()
        now, new = (math.log(seconds / bounds[each.layouts]) for each, seconds in (self._at, (config, cost)))
        told = sum(family.told for family in self.families.values())
        temperature = HOT * (COLD / HOT) ** min(1.0, told / COOLING)
        return new <= now or self.rng.random() < math.exp((now - new) / temperature)
