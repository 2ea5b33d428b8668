"""Search strategies, one file each."""

from __future__ import annotations

import random

from tuner.search.problem import Problem
from tuner.search.strategies.analysis import AnalysisStrategy
from tuner.search.strategies.base import Strategy
from tuner.search.strategies.evolution import EvolutionStrategy
from tuner.search.strategies.model import ModelStrategy
from tuner.search.strategies.random import RandomStrategy

STRATEGIES: dict[str, type[Strategy]] = {}
"""Each strategy by the name that a job says."""


def register(strategy: type[Strategy]) -> None:
    """Make a strategy known under its name."""
    STRATEGIES[strategy.name] = strategy


for _strategy in (AnalysisStrategy, RandomStrategy, EvolutionStrategy, ModelStrategy):
    register(_strategy)


def make(name: str, problem: Problem, rng: random.Random) -> Strategy:
    """The strategy called ``name``; raises ValueError that lists those there are."""
    try:
        return STRATEGIES[name](problem, rng)
    except KeyError:
        raise ValueError(f"unknown strategy {name!r}; there are {sorted(STRATEGIES)}") from None
