"""Search strategies, one file each."""

from __future__ import annotations

import random
from functools import cache

from kernels.plugins import named, plugged
from tuner.search.problem import Problem
from tuner.search.strategies.analysis import AnalysisStrategy
from tuner.search.strategies.annealing import AnnealingStrategy
from tuner.search.strategies.bandit import BanditStrategy
from tuner.search.strategies.base import Strategy
from tuner.search.strategies.evolution import EvolutionStrategy
from tuner.search.strategies.exhaustive import ExhaustiveStrategy
from tuner.search.strategies.model import ModelStrategy
from tuner.search.strategies.random import RandomStrategy

STRATEGIES: dict[str, type[Strategy]] = {}
"""Each strategy by the name that a job says."""


def register(strategy: type[Strategy]) -> None:
    """Make a strategy known under its name."""
    STRATEGIES[strategy.name] = strategy


for _strategy in (
    AnalysisStrategy,
    ExhaustiveStrategy,
    RandomStrategy,
    AnnealingStrategy,
    EvolutionStrategy,
    ModelStrategy,
    BanditStrategy,
):
    register(_strategy)


@cache
def _add_plugged() -> None:
    """Ask once which strategies installed packages add; none replaces another."""
    for strategy in plugged("tilefleet.strategies", Strategy):  # type: ignore[type-abstract]
        STRATEGIES.setdefault(strategy.name, strategy)


def listed() -> dict[str, type[Strategy]]:
    """All by name: those that come with Tilefleet, then those that installed packages add."""
    _add_plugged()
    return dict(STRATEGIES)


def find(name: str) -> type[Strategy]:
    """The strategy of that name; nothing is imported because of a name. Raises ValueError that lists those
    there are."""
    known = listed()
    if name not in known:
        there_are = ", ".join(sorted(known))
        way_out = "a package adds its own by the entry point tilefleet.strategies"
        raise ValueError(f"unknown strategy {name!r}; there are: {there_are}; {way_out}")
    return known[name]


def find_or_import(name: str) -> type[Strategy]:
    """``find``, or import the class that ``FILE.py:Class`` or ``module:Class`` says: for who types the
    name, never for a request. Raises ValueError that says why there is none."""
    return named(name, Strategy) if ":" in name else find(name)  # type: ignore[type-abstract]


def make(name: str, problem: Problem, rng: random.Random) -> Strategy:
    """A new strategy for ``problem``; raises ValueError as ``find`` does."""
    return find(name)(problem, rng)
