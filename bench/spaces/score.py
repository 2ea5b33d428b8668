"""How good strategies are on the recorded spaces, asked as a job asks."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.spaces.record import SUFFIX, unpack

if TYPE_CHECKING:
    from tuner.search.replay import Recorded

RECORDED = Path(__file__).parent / "recorded"
MARKS = (1, 10, 30, 60)
"""Trials after which the regret is told."""


@dataclass(frozen=True)
class Row:
    """One strategy on one space: its score, and the regrets after ``MARKS`` trials in parts of the best."""

    score: float
    regrets: tuple[float, ...]


def names() -> list[str]:
    """The spaces that are shipped."""
    return sorted(path.name.removesuffix(SUFFIX) for path in RECORDED.glob(f"*{SUFFIX}"))


def space(name: str) -> Recorded:
    """One of them."""
    return unpack(RECORDED / f"{name}{SUFFIX}")


def row(found: Recorded, strategy: str, seeds: int) -> Row:
    """``strategy`` on a space, over runs by that many seeds."""
    from tuner.search.replay import best_by_trial
    from tuner.search.score import budget, scored

    costs = found.costs.values()
    trials = max(*MARKS, budget(costs))
    runs = [best_by_trial(found, strategy, trials, seed) for seed in range(seeds)]
    result = scored(costs, runs, trials)
    return Row(result.score, tuple(float(result.regret[mark - 1]) for mark in MARKS))


def mean(rows: Sequence[Row]) -> Row:
    """The means over spaces."""
    regrets = zip(*(each.regrets for each in rows), strict=True)
    return Row(statistics.fmean(each.score for each in rows), tuple(map(statistics.fmean, regrets)))


def table(strategies: Sequence[str], seeds: int) -> Iterator[str]:
    """Lines of a Markdown table: every space, and the mean over all."""
    yield "| space | points | strategy | score | " + " | ".join(f"{mark}" for mark in MARKS) + " |"
    yield "| --- " * (4 + len(MARKS)) + "|"
    spaces = {name: space(name) for name in names()}
    points = sum(len(found.costs) for found in spaces.values())
    for strategy in strategies:
        rows = []
        for name, found in spaces.items():
            rows.append(row(found, strategy, seeds))
            yield _line(name, len(found.costs), strategy, rows[-1])
        yield _line(f"mean of {len(spaces)}", points, strategy, mean(rows))


def _line(name: str, points: int, strategy: str, found: Row) -> str:
    cells = [
        name,
        f"{points}",
        strategy,
        f"{found.score:.2f}",
        *(f"{100 * each:.1f}" for each in found.regrets),
    ]
    return "| " + " | ".join(cells) + " |"
