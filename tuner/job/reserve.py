"""The part of a budget that is kept for the end of a job: building, checking and racing its model."""

from __future__ import annotations

import math
from pathlib import PurePath

from tuner.spec import JobSpec

LEAST_S, TASK_S = 4.0, 0.4
"""Expected of the first job here: so long, and so long for each distinct layer."""
PLANS, SIMULATED_PLANS = 12, 20
"""Where that is more, it is so many times as long as the untuned plan took, since a busy machine takes longer
for all. A simulated board runs code slowly."""
TRIAL_S = 0.5
"""Seconds that a trial takes, about."""
LATE_S, LATE_SHARE = 15.0, 0.05
"""So long at least the build of what was tuned may go on after the end of a budget that has room for it; any
other build such a share of the budget."""
CONFIGS_S, CONFIGS_SHARE = 5.0, 0.3
"""Expected of the first race of a workload's configs, which gets such a share of the budget at most."""
SPARE = 1.15
"""Factor on what was seen, as the next model has other kernels."""
BOTH = 2.0
"""So many times as long as the untuned model alone take both models."""


Kind = tuple[str, str, int]
"""Of boards: the target's key, the clock, the threads."""


class Deliveries:
    """What the deliveries of one service took; shared by its jobs.

    All seconds are those of two models that were built and raced; of the untuned one alone they are BOTH
    times less. Jobs of one workload are as one model: their races of configs take the same for all.
    """

    def __init__(self) -> None:
        self._seconds: dict[tuple[str | None, Kind], float] = {}
        self._a_task: dict[Kind, float] = {}

    def observe(self, job: JobSpec, seconds: float, same: bool = False) -> None:
        """Take in what the delivery of ``job`` took, without what was spent to make its gain surer. It was
        that of the untuned model alone where both are the ``same``."""
        self._keep(job, BOTH * seconds if same else seconds)

    def took_longer(self, job: JobSpec, seconds: float, same: bool) -> None:
        """Take in that so many seconds were not enough: twice as many are expected then, unless more were."""
        longer_s = (BOTH if same else 1.0) * 2 * seconds
        if longer_s > self.expected_s(job) / SPARE:
            self._keep(job, longer_s)

    def _keep(self, job: JobSpec, seconds: float) -> None:
        self._seconds[(_name(job), _kind(job))] = seconds
        if job.model is None:
            return
        a_task, before = seconds / max(1, len(job.tasks)), self._a_task.get(_kind(job))
        self._a_task[_kind(job)] = a_task if before is None else (a_task + before) / 2

    def seen_s(self, job: JobSpec) -> float:
        """What the last delivery of this model on such a board took; 0 where there was none."""
        return self._seconds.get((_name(job), _kind(job)), 0.0)

    def expected_s(self, job: JobSpec) -> float:
        """What the delivery of ``job`` will take: as for its model before, or by its number of layers."""
        if job.model is None:
            return self._configs_s(job)
        known = self._known_s(_name(job), _kind(job), len(job.tasks))
        if known is None:
            plans = PLANS if job.demand.clock == "wall" else SIMULATED_PLANS
            known = max(LEAST_S + TASK_S * len(job.tasks), plans * job.planned_s)
        return SPARE * known

    def first_look_s(self, model: str, kind: Kind, layers: int) -> float | None:
        """About how many seconds a first result of a model (its file's name) takes on such a board: a trial
        of each of its distinct ``layers``, and a delivery as earlier ones were. None where there was none."""
        known = self._known_s(model, kind, layers)
        return None if known is None else SPARE * known + TRIAL_S * layers

    def _known_s(self, model: str | None, kind: Kind, layers: int) -> float | None:
        """What the last delivery of this model on such a board took, or those of others by their layers."""
        a_task = self._a_task.get(kind)
        return self._seconds.get((model, kind), None if a_task is None else a_task * layers)

    def _configs_s(self, job: JobSpec) -> float:
        """What the race of a workload's configs will take: nothing by a clock that needs none."""
        if job.demand.clock != "wall" or len(job.tasks) != 1:
            return 0.0
        most_s = CONFIGS_SHARE * (job.budget.seconds or math.inf)
        return min(SPARE * (self.seen_s(job) or CONFIGS_S), most_s)

    def late_s(self, job: JobSpec, tuned: bool) -> float:
        """How long the build of ``job`` may go on after the end of its budget.

        What was ``tuned`` shall not be lost where earlier phases or the build took longer than expected: that
        has as long again as was kept for it, unless the whole budget is known to be too small. A race of
        configs has nothing to lose.
        """
        limit_s = job.budget.seconds or math.inf
        if job.model is None or not tuned or self.seen_s(job) > limit_s:
            return LATE_SHARE * limit_s
        return max(LATE_S, self.expected_s(job))

    def needed_s(self, job: JobSpec) -> int:
        """The least budget that is worth it: a delivery, and a trial of each layer."""
        return math.ceil(self.expected_s(job) + TRIAL_S * len(job.tasks))


def _name(job: JobSpec) -> str | None:
    return job.model and PurePath(job.model).name


def _kind(job: JobSpec) -> Kind:
    return job.demand.target.key, job.demand.clock, job.demand.threads
