"""What the measured tasks of a job say about the predictions for the others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from kernels.space import Config
from tuner.layouts import race as layout_race
from tuner.log.record import Record
from tuner.search.problem import Problem

HOPELESS, HOPELESS_KNOWN = 2.0, 1.5
"""A family is left out when its prediction is this much above the best of its layouts, conversions included;
the second where the family's predictions have been held against measurements."""
KNOWN = 3
"""Tasks that make a family known."""


class Calibration:
    """How far each family's predictions were off.

    Predictions order configs of one kernel well, and kernels less so: whatever is wrong with a kernel's
    (say, in NHWC) is much alike in all layers.
    """

    def __init__(self) -> None:
        self._logs: dict[str, list[float]] = {}

    def learn(self, problem: Problem, config: Config, cost_s: float) -> None:
        """Take in what one of the problem's seeds has cost."""
        if config in problem.seeds:
            off = math.log(cost_s / problem.predict(config))
            self._logs.setdefault(config.family, []).append(off)

    def learn_all(self, problem: Problem, records: Iterable[Record]) -> None:
        """The same of all records that have a quiet time."""
        for record in records:
            if record.ranking_s is not None and not record.disturbed:
                self.learn(problem, record.config, record.ranking_s)

    def predict(self, problem: Problem, config: Config) -> float:
        """The predicted seconds of ``config``, corrected by what was measured in its family, or in all."""
        logs = self._logs.get(config.family) or [log for logs in self._logs.values() for log in logs]
        return problem.predict(config) * math.exp(statistics.median(logs) if logs else 0.0)

    def seeds(self, problem: Problem) -> list[Config]:
        """The problem's seeds that are worth a trial, the analysis's first, then the most promising."""
        predicted = {seed: self.predict(problem, seed) for seed in problem.seeds}
        best_s = {seed.layouts: math.inf for seed in problem.seeds}
        for seed, seconds in predicted.items():
            best_s[seed.layouts] = min(best_s[seed.layouts], seconds)
        bounds = layout_race.bounds(problem.workload, best_s)
        behind = {seed: seconds / bounds[seed.layouts] for seed, seconds in predicted.items()}
        first, *others = problem.seeds
        kept = [seed for seed in others if behind[seed] <= self._limit(seed)]
        return [first, *sorted(kept, key=behind.__getitem__)]

    def _limit(self, seed: Config) -> float:
        known = len(self._logs.get(seed.family, ())) >= KNOWN
        return HOPELESS_KNOWN if known else HOPELESS
