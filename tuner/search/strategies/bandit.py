"""A bandit over strategies: whichever found better configs lately asks for more of the trials.

The area under the curve of hits, over a window, and a bonus for who had few turns: Ansel and others,
"OpenTuner: an extensible framework for program autotuning", PACT 2014, section 3.3.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Sequence

from kernels.space import Config
from tuner.search.problem import Problem
from tuner.search.strategies.annealing import AnnealingStrategy
from tuner.search.strategies.base import Strategy
from tuner.search.strategies.evolution import EvolutionStrategy
from tuner.search.strategies.model import ModelStrategy
from tuner.search.strategies.random import RandomStrategy

WINDOW = 50
"""How many of the last trials count."""
BONUS = 0.3
"""What having had few turns is worth."""
MEMBERS: tuple[type[Strategy], ...] = (ModelStrategy, EvolutionStrategy, AnnealingStrategy, RandomStrategy)


class BanditStrategy(Strategy):
    """Lets several strategies propose configs, and those more often that found better ones lately."""

    name = "bandit"

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        super().__init__(problem, rng)
        self._members = {each.name: each(problem, random.Random(rng.random())) for each in MEMBERS}
        self._asked_by: dict[Config, str] = {}
        self._window: deque[tuple[str, bool]] = deque(maxlen=WINDOW)
        self._best = math.inf

    def begin_with(self, seeds: Sequence[Config]) -> None:
        """Ask these seeds first; all members know which families have none."""
        super().begin_with(seeds)
        for member in self._members.values():
            member.begin_with(seeds)

    def tell(self, results: Sequence[tuple[Config, float | None]]) -> None:
        """Learn costs in seconds, with all members; None is a config that failed."""
        super().tell(results)
        for member in self._members.values():
            member.tell(results)
        for config, cost in results:
            hit = cost is not None and cost < self._best
            if hit and cost is not None:
                self._best = cost
            if (name := self._asked_by.pop(config, None)) is not None:
                self._window.append((name, hit))

    def suggest(self, n: int) -> list[Config]:
        """Configs of members by turns; random ones where they have no more."""
        found: list[Config] = []
        for name, turns in self._turns(n).items():
            proposed = [config for config in self._members[name].suggest(turns) if config not in found]
            fresh = [config for config in proposed if self.is_new(config)]
            self._asked_by |= dict.fromkeys(fresh, name)
            for member in self._members.values():
                member.count_as_asked(fresh)
            found += fresh
        return found + self.random_batch(n - len(found), self.problem.space.spaces, set(found))

    def _turns(self, n: int) -> Counter[str]:
        """How many of the next ``n`` trials each member proposes."""
        had = Counter(name for name, _ in self._window)
        worth = {name: self._worth(name) for name in self._members}
        turns: Counter[str] = Counter()
        for _ in range(n):
            total = sum(had.values()) + 1
            scores = {
                name: worth[name] + BONUS * math.sqrt(math.log(total) / (had[name] + 1)) for name in worth
            }
            chosen = max(scores, key=scores.__getitem__)
            turns[chosen] += 1
            had[chosen] += 1
        return turns

    def _worth(self, name: str) -> float:
        """How often this member's trials were hits, the later ones counted more: from 0 to 1."""
        hits = [hit for member, hit in self._window if member == name]
        total = len(hits) * (len(hits) + 1) / 2
        return sum(place for place, hit in enumerate(hits, 1) if hit) / total if hits else 0.0
