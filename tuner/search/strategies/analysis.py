"""No search: the slicing analysis's pick alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kernels.space import Config
from tuner.search.problem import Problem
from tuner.search.strategies.base import Strategy


class AnalysisStrategy(Strategy):
    """Takes the config that the analysis recommends, and searches no further."""

    name = "analysis"

    def __init__(self, problem: Problem, rng: random.Random) -> None:
        super().__init__(problem, rng)
        self.seeds = problem.seeds[:1]

    def begin_with(self, seeds: Sequence[Config]) -> None:
        """The first of them alone."""
        super().begin_with(seeds[:1])

    def suggest(self, n: int) -> list[Config]:
        """Nothing more."""
        return []
