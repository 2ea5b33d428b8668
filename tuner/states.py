"""What jobs and tasks can be doing: words that the API speaks as well."""

from __future__ import annotations

from enum import StrEnum

TASK_TRIALS = 60
"""Trials for each distinct workload where nobody says how many: more find little more."""


class JobState(StrEnum):
    """What a job is doing; ``incomplete`` is one that ended with layers for which no config ran."""

    QUEUED = "queued"
    RUNNING = "running"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    DONE = "done"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    INTERRUPTED = "interrupted"

    @property
    def final(self) -> bool:
        """Whether nothing more happens unless the job is resumed."""
        return self not in (JobState.QUEUED, JobState.RUNNING, JobState.CANCELLING)


class TaskState(StrEnum):
    """What a task is doing: ``plateau`` and ``exhausted`` say why it gets no more trials."""

    WAITING = "waiting"
    ACTIVE = "active"
    PLATEAU = "plateau"
    EXHAUSTED = "exhausted"
    DONE = "done"


class GivenUp(Exception):
    """The job cannot go on; the message says why."""


class TakenOver(Exception):
    """Another process has the job: nothing more of this run may be kept or told."""


class StoreAway(Exception):
    """The database takes nothing now, but may later; the message says why."""
