"""Evolution: the configs that did well are crossed and changed a little, within each family."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace

from kernels.space import Config
from tuner.search.problem import Problem
from tuner.search.strategies.base import Family, Strategy

TOURNAMENT = 8
CROSSOVER = 0.3
STRANGERS = 0.15
"""Share of children that are random, against early convergence."""
FAMILY_TRIALS = 6
"""Trials that a family gets before it is judged; in several layouts it may be further behind until then."""
LOSING = 1.3
"""A judged family whose best is this much slower than what it has to beat gets no more trials."""
SIBLINGS = 0.5
"""Largest part of a batch that is the best configs of some layouts tried in others."""


class EvolutionStrategy(Strategy):
    """Crosses the configs that did well, and changes them a little.

    It is steady-state evolution with tournament selection.

    Kernel and layouts are a choice too: each family gets shares of the trials by how near its best is to what
    it has to beat (the best of its layouts, or of others with conversions), until it is clearly losing.
    What is good in some layouts is soon tried in the others.
    """

    name = "evolution"

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        super().__init__(problem, rng)
        self._asked: dict[str, int] = dict.fromkeys(self.families, 0)

    def suggest(self, n: int) -> list[Config]:
        """Children of good configs, some strangers, from every family still in the race."""
        batch = self.siblings(n)
        taken: set[Config] = set(batch)
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
        """How much of the trials each family should get, relative to the others; 0 for a clear loser."""
        bounds = self.bounds()
        # Where there are many families, none can have that many trials before it is judged.
        several = len(set(self._layouts.values())) > 1
        shares = {}
        for name, family in self.families.items():
            tried, bound = max(family.told, self._asked[name]), bounds[self._layouts[name]]
            if name in self.hopeless:
                shares[name] = 0.0
            elif not tried or (tried < FAMILY_TRIALS and not (several and family.costs)):
                shares[name] = 1.0
            else:
                doubt = math.sqrt(max(1.0, FAMILY_TRIALS / tried))
                behind = family.best / bound
                lost = not behind <= LOSING**doubt
                shares[name] = 0.0 if lost else math.exp(-10 * (behind - 1) / doubt)
        return shares

    def siblings(self, n: int) -> list[Config]:
        """The best config of each layouts as it would be in others, for up to a part of ``n`` trials."""
        if len(set(self._layouts.values())) == 1:
            return []
        bounds, shares = self.bounds(), self.shares()
        champions = [
            (family.best / bounds[self._layouts[name]], min(family.costs, key=family.costs.__getitem__))
            for name, family in self.families.items()
            if family.costs
        ]
        found: dict[Config, None] = {}
        for behind, champion in sorted(champions, key=lambda pair: (pair[0], pair[1].key)):
            if behind <= 1.0:
                found |= dict.fromkeys(self._translations(champion, shares))
        return list(found)[: int(SIBLINGS * n)]

    def _translations(self, config: Config, shares: dict[str, float]) -> Iterator[Config]:
        """``config`` in the other layouts that its kernel knows, where they are in the race."""
        for name, family in self.families.items():
            if family.space.kernel == config.kernel and shares[name]:
                other = replace(config, layouts=family.space.layouts)
                if self.is_new(other) and family.space.why_not(other) is None:
                    yield other

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
