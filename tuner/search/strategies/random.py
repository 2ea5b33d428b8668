"""Random search, the baseline that every other strategy must beat."""

from __future__ import annotations

from kernels.space import Config
from tuner.search.strategies.base import Strategy


class RandomStrategy(Strategy):
    """Draws configs at random, from all kernels alike.

    They take turns: otherwise the kernel with the most knobs would get every trial.
    """

    name = "random"

    def suggest(self, n: int) -> list[Config]:
        """Random new points."""
        return self.random_batch(n, self.problem.space.spaces, set())
