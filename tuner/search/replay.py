"""Strategies on recorded measurements: what they would have found, without measuring again."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernels import registry
from kernels.layout import PLAIN
from kernels.numerics import Numerics
from kernels.space import Config, Knobs, SearchSpace, Space, Value
from tuner.log.record import Record
from tuner.search import strategies
from tuner.search.problem import Problem

ASKED = 8
"""Configs that a strategy is asked for at a time, as a job asks; at first for those it tries anyway."""
COUNTED = 200_000
"""Combinations of knobs up to which the points of the whole space are counted."""


@dataclass(frozen=True)
class Recorded:
    """The recorded part of one workload's space: ``costs`` in seconds, None for a config that failed.

    ``points`` are those of the whole space, or combinations of its knobs where these are too many to be
    ``counted``. ``old`` records are of other versions of their kernels, and left out.
    """

    problem: Problem
    costs: Mapping[Config, float | None]
    points: int
    counted: bool
    old: int

    @property
    def best_s(self) -> float:
        """The least recorded cost."""
        return min(cost for cost in self.costs.values() if cost is not None)

    @property
    def share(self) -> float:
        """How much of the space is recorded; at least that where the points were not counted."""
        return len(self.costs) / self.points


def recorded(records: Sequence[Record]) -> Recorded:
    """What ``records`` of one workload, target, clock and number of threads leave to search.

    Raises ValueError where they are of several, where none of them ran, or where none of their kernels is
    known.
    """
    if len({(each.workload, each.target.key, each.clock, each.threads) for each in records}) != 1:
        raise ValueError("the records are not of one workload, target, clock and number of threads")
    workload, target, threads = records[0].workload, records[0].target, records[0].threads
    known = registry.all_kernels()
    now = [
        r for r in records if r.config.kernel in known and r.kernel_version == known[r.config.kernel].version
    ]
    costs = {record.config: record.ranking_s for record in now}
    if all(cost is None for cost in costs.values()):
        raise ValueError(f"no record of {workload} ran with a kernel of today's version")
    any_layout = any(config.layouts != PLAIN for config in costs)
    whole = Problem.of(workload, target, Numerics.RELAXED, threads, any_layout)
    counted = whole.size <= COUNTED
    points = sum(1 for space in whole.space.spaces for _ in space) if counted else whole.size
    seeds = tuple(seed for seed in whole.seeds if seed in costs) or (min(costs, key=whole.predict),)
    problem = Problem(workload, target, _space(costs), seeds, whole.predict)
    return Recorded(problem, costs, max(points, len(costs)), counted, len(records) - len(now))


def whole_space(
    records: Sequence[Record], seeds: Sequence[Config], predicted_s: Mapping[Config, float]
) -> Recorded:
    """A space of which every point was recorded, with the seeds and predictions of that day: today's kernels
    are not asked, so it stays as it is when they change."""
    costs = {record.config: record.ranking_s for record in records}
    workload, target = records[0].workload, records[0].target
    problem = Problem(workload, target, _space(costs), tuple(seeds), predicted_s.__getitem__)
    return Recorded(problem, costs, len(costs), True, 0)


def foreign_space(costs: Mapping[Config, float | None]) -> Recorded:
    """A space of another tool's kernel: nothing is known of it but what each config took, so a search has no
    seeds and no predictions. Raises ValueError where no config ran."""
    if all(cost is None for cost in costs.values()):
        raise ValueError("none of its configs ran")
    problem = Problem(None, None, _space(costs), (), lambda _: 1.0)
    return Recorded(problem, costs, len(costs), True, 0)


def _space(costs: Mapping[Config, float | None]) -> SearchSpace:
    return SearchSpace(tuple(_RecordedSpace.of(family) for family in _families(costs)))


def _families(costs: Iterable[Config]) -> list[list[Config]]:
    by_name = sorted(costs, key=lambda config: config.family)
    return [list(group) for _, group in itertools.groupby(by_name, lambda config: config.family)]


@dataclass(frozen=True)
class _RecordedSpace(Space):
    """A family's recorded ``points``. They are few of the combinations of their knobs, so they are listed."""

    points: tuple[Config, ...] = ()

    @classmethod
    def of(cls, configs: Sequence[Config]) -> _RecordedSpace:
        """The space of these configs of one family."""
        kernel, layouts, known = configs[0].kernel, configs[0].layouts, frozenset(configs)
        knobs: dict[str, set[Value]] = {}
        for name, value in (knob for config in configs for knob in config.knobs):
            knobs.setdefault(name, set()).add(value)

        def invalid(point: Knobs) -> str | None:
            return None if Config.of(kernel, layouts, **point) in known else "it was not recorded"

        listed = {name: sorted(values, key=_in_order) for name, values in knobs.items()}
        points = sorted(configs, key=lambda config: [_in_order(value) for _, value in config.knobs])
        return cls(kernel, listed, invalid, layouts, tuple(points))

    @property
    def size(self) -> int:
        """The recorded points."""
        return len(self.points)

    def __iter__(self) -> Iterator[Config]:
        return iter(self.points)

    def sample(self, rng: random.Random, tries: int = 200) -> Config | None:
        """A random recorded point."""
        return rng.choice(self.points)


def _in_order(value: Value) -> tuple[bool, Value]:
    """The key that sorts a knob's values: numbers before words."""
    return isinstance(value, str), value


def best_by_trial(found: Recorded, strategy: str, trials: int, seed: int, asked: int = ASKED) -> list[float]:
    """The best seconds that ``strategy`` knows after each of ``trials``; infinite until a config ran.

    It is asked for its first configs, then for ``asked`` at a time, and told what they cost one by one, as a
    job does. It has fewer trials where it has no more to ask. Raises ValueError for a strategy that is none,
    or asks for what is not in its problem's space.
    """
    search = strategies.find_or_import(strategy)(found.problem, random.Random(seed))
    best, curve, wanted = math.inf, list[float](), max(1, len(search.seeds))
    while len(curve) < trials and (configs := search.ask(min(wanted, trials - len(curve)))):
        wanted = asked
        for config in configs:
            if config not in found.costs:
                raise ValueError(
                    f"strategy {strategy} asked for {config}, which is not in its problem's space"
                )
        for config in configs:
            cost = found.costs[config]
            search.tell([(config, cost)])
            best = min(best, math.inf if cost is None else cost)
            curve.append(best)
    return curve


def spaces_of(records: Iterable[Record], fits: Callable[[Record], bool]) -> list[list[Record]]:
    """The records that fit, by workload, target, clock and threads; the most first."""
    spaces: dict[tuple[str, str, str, int], list[Record]] = {}
    for record in filter(fits, records):
        key = (record.workload.key, record.target.key, record.clock, record.threads)
        spaces.setdefault(key, []).append(record)
    return sorted(spaces.values(), key=len, reverse=True)
