"""What every search strategy is: it is asked for configs and told what they cost."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from kernels.layout import Layouts
from kernels.space import Config, Space
from tuner.search.problem import Problem

TRIES = 40
"""Random draws without a new point after which a space is listed instead."""


@dataclass
class Family:
    """What is known of one kernel's configs in one pair of layouts.

    ``costs`` are of those that ran, ``told`` is how many were told.
    """

    space: Space
    costs: dict[Config, float] = field(default_factory=dict)
    told: int = 0

    @property
    def best(self) -> float:
        """The lowest cost, infinite when nothing ran."""
        return min(self.costs.values(), default=float("inf"))


class Strategy(ABC):
    """Chooses which configs to try.

    A config is never asked twice, nor asked once it was told. The seeds come first, so that the very first
    trial is the analysis's. The same problem, random state and answers lead to the same questions.
    """

    name: ClassVar[str]

    @classmethod
    def about(cls) -> str:
        """What it does, for people who choose one: the first paragraph of its docstring, or nothing."""
        return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        self.problem = problem
        self.rng = rng
        self.seeds: tuple[Config, ...] = problem.seeds
        self.families = {space.family: Family(space) for space in problem.space.spaces}
        self.hopeless: set[str] = set()
        self._layouts = {name: family.space.layouts for name, family in self.families.items()}
        self._seen: set[Config] = set()
        self._rest: dict[str, list[Config]] = {}

    def begin_with(self, seeds: Sequence[Config]) -> None:
        """Ask these seeds first; families that have none among them come after all others."""
        self.seeds = tuple(seeds)
        self.hopeless = self.families.keys() - {seed.family for seed in seeds}

    def bounds(self) -> dict[Layouts, float]:
        """The seconds that a config of each pair of layouts must beat to be of use; infinite at first."""
        best = dict.fromkeys(self._layouts.values(), math.inf)
        for name, family in self.families.items():
            layouts = self._layouts[name]
            best[layouts] = min(best[layouts], family.best)
        return self.problem.bounds(best)

    def ask(self, n: int) -> list[Config]:
        """Up to ``n`` new configs; fewer, or none, when there are no more."""
        batch = self._take((seed for seed in self.seeds), n)
        if len(batch) < n:
            batch += self._take(self.suggest(n - len(batch)), n - len(batch))
        return batch

    def tell(self, results: Sequence[tuple[Config, float | None]]) -> None:
        """Learn costs in seconds; None is a config that failed. Configs nobody asked for are welcome."""
        for config, cost in results:
            self._seen.add(config)
            family = self.families.get(config.family)
            if family is not None:
                family.told += 1
                if cost is not None:
                    family.costs[config] = cost

    @abstractmethod
    def suggest(self, n: int) -> list[Config]:
        """Up to ``n`` different new configs after the seeds; fewer when there are no more."""

    def count_as_asked(self, configs: Iterable[Config]) -> None:
        """Ask none of these, as somebody else does."""
        self._seen.update(configs)

    def is_new(self, config: Config) -> bool:
        """Whether ``config`` was neither asked nor told."""
        return config not in self._seen

    def random_new(self, space: Space, taken: set[Config]) -> Config | None:
        """A random new point of ``space`` outside ``taken``, or None when there is none left."""
        if space.family not in self._rest:
            for _ in range(TRIES):
                config = space.sample(self.rng, tries=TRIES)
                if config is not None and self.is_new(config) and config not in taken:
                    return config
            self._rest[space.family] = list(space)
            self.rng.shuffle(self._rest[space.family])
        rest = self._rest[space.family]
        while rest and not self.is_new(rest[-1]):
            rest.pop()
        new = (config for config in reversed(rest) if config not in taken and self.is_new(config))
        return next(new, None)

    def random_batch(self, n: int, spaces: Iterable[Space], taken: set[Config]) -> list[Config]:
        """Up to ``n`` random new points, from ``spaces`` in turns in random order."""
        batch: list[Config] = []
        turns = list(spaces)
        self.rng.shuffle(turns)
        while turns and len(batch) < n:
            space = turns.pop(0)
            config = self.random_new(space, taken)
            if config is not None:
                batch.append(config)
                taken.add(config)
                turns.append(space)
        return batch

    def _take(self, configs: Iterable[Config], n: int) -> list[Config]:
        batch: list[Config] = []
        for config in configs:
            if len(batch) == n:
                break
            if self.is_new(config):
                batch.append(config)
                self._seen.add(config)
        return batch
