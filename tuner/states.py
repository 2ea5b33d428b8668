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


class Phase(StrEnum):
    """What a running job does: it searches, measures the best configs again, compares them in the model,
    and builds that."""

    SEARCHING = "searching"
    REMEASURING = "remeasuring"
    COMPARING = "comparing"
    BUILDING = "building"


class TaskState(StrEnum):
    """What a task is doing: ``plateau`` and ``exhausted`` say why it gets no more trials.

    Where the job itself is over, ``stopped`` is a task that would have had more of them, and ``untried`` one
    that had none: no search is in these states, they are for those who ask.
    """

    WAITING = "waiting"
    ACTIVE = "active"
    PLATEAU = "plateau"
    EXHAUSTED = "exhausted"
    DONE = "done"
    STOPPED = "stopped"
    UNTRIED = "untried"

    def at(self, job: JobState, trials: int) -> TaskState:
        """What to say of it to those who ask: in a job that is over nothing waits, unless that is resumed."""
        if trials == 0 and (job.final or self is TaskState.EXHAUSTED):
            return TaskState.UNTRIED
        unfinished = self in (TaskState.WAITING, TaskState.ACTIVE)
        return TaskState.STOPPED if job.final and unfinished else self


class GivenUp(Exception):
    """The job cannot go on; the message says why."""


class TakenOver(Exception):
    """Another process has the job: nothing more of this run may be kept or told."""


class StoreAway(Exception):
    """The database takes nothing now, but may later; the message says why."""
