"""What the measured tasks of a job say about the predictions for the others."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kernels.space import Config
from tuner.layouts.ratios import Ratios
from tuner.log.record import Record
from tuner.search.problem import Problem

HOPELESS, HOPELESS_KNOWN = 2.0, 1.5
"""A family is left out when its prediction is this much above the best of its layouts, conversions included;
the second where the family's predictions have been held against measurements."""
KNOWN = 3
"""Tasks that make a family known."""


class Calibration:
    """How far each family's predictions were off, by the seeds of all tasks."""

    def __init__(self) -> None:
        self.ratios = Ratios()

    def learn(self, problem: Problem, config: Config, cost_s: float) -> None:
        """Take in what one of the problem's seeds has cost."""
        if config in problem.seeds:
            self.ratios.learn(config.family, cost_s, problem.predict(config))

    def learn_all(self, problem: Problem, records: Iterable[Record]) -> None:
        """The same of all records that have a quiet time."""
        for record in records:
            if record.ranking_s is not None and not record.disturbed:
                self.learn(problem, record.config, record.ranking_s)

    def predict(self, problem: Problem, config: Config) -> float:
        """The predicted seconds of ``config``, corrected by what was measured in its family, or in all."""
        return problem.predict(config) * self.ratios.of(config.family)

    def seeds(self, problem: Problem) -> list[Config]:
        """The problem's seeds that are worth a trial, the analysis's first, then the most promising."""
        predicted = {seed: self.predict(problem, seed) for seed in problem.seeds}
        best_s = {seed.layouts: math.inf for seed in problem.seeds}
        for seed, seconds in predicted.items():
            best_s[seed.layouts] = min(best_s[seed.layouts], seconds)
        bounds = problem.bounds(best_s)
        behind = {seed: seconds / bounds[seed.layouts] for seed, seconds in predicted.items()}
        first, *others = problem.seeds
        kept = [seed for seed in others if behind[seed] <= self._limit(seed)]
        return [first, *sorted(kept, key=behind.__getitem__)]

    def _limit(self, seed: Config) -> float:
        known = self.ratios.known(seed.family) >= KNOWN
        return HOPELESS_KNOWN if known else HOPELESS
