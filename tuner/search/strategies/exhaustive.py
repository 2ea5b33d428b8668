"""Exhaustive search: for small spaces, and to know what the others miss."""

from __future__ import annotations

from functools import cached_property

from kernels.space import Config
from tuner.search.strategies.base import Strategy


class ExhaustiveStrategy(Strategy):
    """Tries every config, the fastest predicted first."""

    name = "exhaustive"

    def suggest(self, n: int) -> list[Config]:
        """The next ones in that order."""
        found: list[Config] = []
        while self._left and len(found) < n:
            config = self._left.pop()
            if self.is_new(config):
                found.append(config)
        return found

    @cached_property
    def _left(self) -> list[Config]:
        """All points, the slowest predicted first."""
        return sorted(self.problem.space, key=self.problem.predict, reverse=True)
