"""Evolution: the configs that did well are crossed and changed a little, within each kernel."""

from __future__ import annotations

import math
import random

from kernels.space import Config
from tuner.problem import Problem
from tuner.strategies.base import Family, Strategy

TOURNAMENT = 8
CROSSOVER = 0.3
STRANGERS = 0.15
"""Share of children that are random, against early convergence."""
FAMILY_TRIALS = 6
"""Trials that every kernel gets before it is judged."""
LOSING = 1.3
"""A judged kernel whose best is this much slower than the best of all gets no more trials."""


class EvolutionStrategy(Strategy):
    """Steady-state evolution with tournament selection.

    The kernel is a choice too: each gets ``FAMILY_TRIALS``, then shares of the trials by how near its best
    is to the best of all, until it is clearly losing.
    """

    name = "evolution"

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        super().__init__(problem, rng)
        self._asked: dict[str, int] = dict.fromkeys(self.families, 0)

    def suggest(self, n: int) -> list[Config]:
        """Children of good configs, some strangers, from every kernel still in the race."""
        batch: list[Config] = []
        taken: set[Config] = set()
        empty: set[str] = set()
        while len(batch) < n:
            family = self._choose_family(empty)
            if family is None:
                break
            config = self.child(family, taken) or self.random_new(family.space, taken)
            if config is None:
                empty.add(family.space.family)
                continue
            self._asked[family.space.family] += 1
            batch.append(config)
            taken.add(config)
        return batch

    def shares(self) -> dict[str, float]:
        """How much of the trials each kernel should get, relative to the others; 0 for a clear loser."""
        best = min((family.best for family in self.families.values()), default=math.inf)
        shares = {}
        for kernel, family in self.families.items():
            if max(family.told, self._asked[kernel]) < FAMILY_TRIALS or math.isinf(best):
                shares[kernel] = 1.0
            else:
                behind = family.best / best - 1
                shares[kernel] = 0.0 if behind > LOSING - 1 else math.exp(-10 * behind)
        return shares

    def child(self, family: Family, taken: set[Config]) -> Config | None:
        """A new config from one or two good parents, or None when luck or the neighbourhood ran out."""
        if not family.costs or self.rng.random() < STRANGERS:
            return None
        space = family.space
        for _ in range(10):
            parent = self._parent(family)
            child: Config | None = parent
            if self.rng.random() < CROSSOVER:
                child = space.cross(parent, self._parent(family), self.rng)
            if child is not None and (child == parent or self.rng.random() < 0.5):
                child = space.mutate(child, self.rng)
            if child is not None and self.is_new(child) and child not in taken:
                return child
        return None

    def _parent(self, family: Family) -> Config:
        rivals = self.rng.choices(list(family.costs), k=TOURNAMENT)
        return min(rivals, key=family.costs.__getitem__)

    def _choose_family(self, empty: set[str]) -> Family | None:
        shares = {kernel: share for kernel, share in self.shares().items() if kernel not in empty}
        if not shares:
            return None
        if not any(shares.values()):
            shares = dict.fromkeys(shares, 1.0)
        return self.families[self.rng.choices(list(shares), weights=list(shares.values()))[0]]
