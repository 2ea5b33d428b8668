"""Search strategies, one file each."""

from __future__ import annotations

import random

from tuner.problem import Problem
from tuner.strategies.analysis import AnalysisStrategy
from tuner.strategies.base import Strategy
from tuner.strategies.evolution import EvolutionStrategy
from tuner.strategies.model import ModelStrategy
from tuner.strategies.random import RandomStrategy

STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy
    for strategy in (AnalysisStrategy, RandomStrategy, EvolutionStrategy, ModelStrategy)
}


def make(name: str, problem: Problem, rng: random.Random) -> Strategy:
    """The strategy called ``name``; raises ValueError that lists those there are."""
    try:
        return STRATEGIES[name](problem, rng)
    except KeyError:
        raise ValueError(f"unknown strategy {name!r}; there are {sorted(STRATEGIES)}") from None
