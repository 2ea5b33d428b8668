"""The part of a budget that is kept for the end of a job: building, checking and racing its model."""

from __future__ import annotations

import math

from tuner.spec import JobSpec

LEAST_S, TASK_S, PLANS = 3.0, 0.3, 8
"""Expected of the first job here: so long, and so long for each distinct layer. Where that is more, it is so
many times as long as the untuned plan took, since a busy machine takes longer for all."""
TRIAL_S = 0.5
"""Seconds that a trial takes, about."""
SPARE = 1.15
"""Factor on what was seen, as the next model has other kernels."""


class Deliveries:
    """What the deliveries of one service took; shared by its jobs."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str | None, str, str, int], float] = {}
        self._a_task: dict[tuple[str, str, int], float] = {}

    def observe(self, job: JobSpec, seconds: float) -> None:
        """Take in what the delivery of ``job`` took, without what was spent to make its gain surer."""
        self._seconds[(job.model, *_board(job))] = seconds
        a_task, before = seconds / max(1, len(job.tasks)), self._a_task.get(_board(job))
        self._a_task[_board(job)] = a_task if before is None else (a_task + before) / 2

    def expected_s(self, job: JobSpec) -> float:
        """What the delivery of ``job`` will take: as for its model before, or by its number of layers."""
        if job.model is None:
            return 0.0
        known = self._seconds.get((job.model, *_board(job)))
        if known is None:
            a_task = self._a_task.get(_board(job))
            first = max(LEAST_S + TASK_S * len(job.tasks), PLANS * job.planned_s)
            known = first if a_task is None else a_task * len(job.tasks)
        return SPARE * known

    def needed_s(self, job: JobSpec) -> int:
        """The least budget that is worth it: a delivery, and a trial of each layer."""
        return math.ceil(self.expected_s(job) + TRIAL_S * len(job.tasks))


def _board(job: JobSpec) -> tuple[str, str, int]:
    return job.demand.target.key, job.demand.clock, job.demand.threads
