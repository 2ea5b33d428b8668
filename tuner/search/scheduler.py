"""Which task gets the next batch: the one that promises most for the whole model."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

WINDOW = 16
"""Trials over which a task's progress is judged."""
PRIOR = 0.5
"""Expected relative improvement of a fresh task's n-th trial, times n: the more trials, the less is left."""
PRIOR_TRIALS = 6
"""How many trials of evidence the expectation counts for."""
IMPROVEMENT = 0.01
"""Smaller relative improvements do not put off a plateau."""
SHORTEST, LONGEST = 16, 48
WORTH = 0.01
"""Going on is not worth it for a smaller share of the whole model."""


@dataclass
class Curve:
    """A task's trials as the scheduler sees them.

    ``weight`` is 0 of a chain, which is beside its parts; it is searched as one that occurs once.
    ``space_size`` is the number of points of its space, ``work`` the seconds that are expected of it
    in the whole model: before anything is measured, the heaviest goes first.
    """

    weight: float
    space_size: int
    work: float = 0.0
    best_s: float = math.inf
    trials: int = 0
    in_flight: int = 0
    exhausted: bool = False
    _steps: list[float] = field(default_factory=list)
    _flat: int = 0
    _level: float = math.inf
    _reached: float = math.inf

    def add(self, costs: Sequence[float | None], levels: Sequence[float] | None = None) -> None:
        """Take in finished trials in order; a cost of None is one that failed.

        ``levels`` is how far the task was after each trial, in seconds of which less is better: its best
        cost, unless there is more to it than that.
        """
        for at, cost in enumerate(costs):
            self.trials += 1
            self._flat += 1
            self.best_s = min(self.best_s, math.inf if cost is None else cost)
            level = self.best_s if levels is None else levels[at]
            self._steps.append(max(0.0, 1 - level / self._level) if math.isfinite(self._level) else 0.0)
            self._level = min(self._level, level)
            if self._level < self._reached * (1 - IMPROVEMENT):
                self._reached, self._flat = self._level, 0

    def know(self, costs: Sequence[float | None], level: float | None = None) -> None:
        """Take in what was measured before: it counts and sets the level, but says nothing about progress."""
        self.trials += len(costs)
        self.best_s = min([self.best_s, *(cost for cost in costs if cost is not None)])
        self._level = min(self._level, self.best_s if level is None else level)
        self._reached = min(self._reached, self._level)

    @property
    def patience(self) -> int:
        """Trials without improvement that make a plateau: more in larger spaces, within bounds."""
        return round(min(max(SHORTEST, 2 * math.sqrt(self.space_size)), LONGEST))

    @property
    def flat(self) -> int:
        """Trials since the last improvement worth it."""
        return self._flat

    @property
    def plateau(self) -> bool:
        """Whether the last ``patience`` trials improved nothing worth it."""
        return self._flat >= self.patience

    @property
    def open(self) -> bool:
        """Whether more trials make sense."""
        return not self.exhausted and not self.plateau

    @property
    def expected_step(self) -> float:
        """Expected relative improvement of one more trial.

        The recent average, mixed with the expectation for a task of this many trials; what is in flight
        counts as trials that have not helped.
        """
        expected = PRIOR / (1 + self.trials + self.in_flight)
        recent = self._steps[-WINDOW:]
        seen = len(recent) + self.in_flight
        return (PRIOR_TRIALS * expected + sum(recent)) / (PRIOR_TRIALS + seen)

    @property
    def points_left(self) -> int:
        """Points of the space that no trial had, invalid ones included."""
        return self.space_size - self.trials - self.in_flight

    @property
    def occurs(self) -> float:
        """How often it is taken to occur."""
        return max(self.weight, 1)

    @property
    def gain(self) -> float:
        """Seconds the whole model is expected to gain by one more trial; infinite before the first."""
        if self.trials + self.in_flight == 0:
            return math.inf
        if math.isinf(self.best_s):
            # Nothing has run yet: unlimited gain, but shared out evenly among such tasks.
            return 1e9 / (self.trials + self.in_flight)
        return self.occurs * self.best_s * self.expected_step


def choose(curves: Sequence[Curve]) -> int | None:
    """The position of the task to give the next batch to, or None when all are done."""
    ready = [at for at, curve in enumerate(curves) if curve.open]
    return max(ready, key=lambda at: (curves[at].gain, curves[at].work), default=None)


def worth(curves: Sequence[Curve], trials: float) -> bool:
    """Whether so many more trials promise WORTH of the model.

    So they do while a task has not run; where all are on their plateaus the question does not arise.
    """
    total = total_s(curves)
    if total is None or not any(curve.open for curve in curves):
        return True
    return expected_s(curves, trials) >= WORTH * total


def expected_s(curves: Sequence[Curve], trials: float) -> float:
    """Seconds the whole model is expected to gain by so many more trials, each given to the most promising.

    What a trial is expected to gain shrinks as those before it have not helped, and no task gets more trials
    than its space has points.
    """
    left = [replace(curve) for curve in curves if curve.open and curve.points_left > 0]
    heap = [(-curve.gain, at) for at, curve in enumerate(left)]
    heapq.heapify(heap)
    gained = 0.0
    while heap and trials >= 1:
        gain, at = heap[0]
        gained, trials = gained - gain, trials - 1
        left[at].in_flight += 1
        if left[at].points_left > 0:
            heapq.heapreplace(heap, (-left[at].gain, at))
        else:
            heapq.heappop(heap)
    return gained


def total_s(curves: Sequence[Curve]) -> float | None:
    """The whole model's time as far as it is known: weight times best, or None while a task has none."""
    total = sum(curve.weight * curve.best_s for curve in curves if curve.weight)
    return total if math.isfinite(total) else None
