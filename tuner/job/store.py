"""What the runner needs of a database; the server supplies it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kernels.target import Target
from kernels.workload.base import Workload
from tuner.backend.check import Delivery
from tuner.log.record import Record
from tuner.spec import Trial
from tuner.states import JobState, TaskState

Ranking = tuple[str | None, bool, str, float | None]
"""What of a record decides how it ranks: its error, whether it is disturbed, its board, its cost."""


class Store(Protocol):
    """The truth about jobs. All methods are synchronous; the runner calls them in a thread.

    An implementation derives what it shows of a task (counts, best cost, recommended cost: that of trial 0)
    from what is saved. All may raise ``StoreAway``, and are then called again.
    """

    def known(self, workload: Workload, target: Target, clock: str, threads: int) -> list[Record]:
        """All records of this (workload, target, clock, threads), failed ones as well, of any job."""

    def trials(self, job_id: int) -> list[Trial]:
        """The job's trials so far, in the order in which they were saved."""

    def changed(self, job_id: int, known: Mapping[tuple[int, str], Ranking]) -> list[Trial]:
        """Those of them that do not stand as they are known by task and config's key, as they are stored now:
        withdrawn, disbelieved, or measured anew by whoever else."""

    def taken_back(self, since: float) -> int:
        """How often some board's word was taken back from a time on, in seconds since the epoch."""

    def save(self, job_id: int, trials: Sequence[Trial], elapsed_s: float) -> list[Trial]:
        """Keep new trials in one transaction, and the job's running time so far; those that were kept.

        What was measured when its lease was lost already is not kept: it counts as never measured. Nor is
        what was known and reused, and is not as it was: it may have been withdrawn or deleted meanwhile.

        A record that is there already (same identity) is not stored again, but the trial refers to it. Only
        one that was disturbed, or failed for a transient reason (``ErrorKind.transient``), is replaced. A
        trial that is there already (same task and record) is ignored.
        """

    def remeasured(self, record: Record, before: Record, lease: int = 0, at: float = 0.0) -> bool:
        """Replace the record of this identity: it has ``verified_s`` now, or failed when measured again.

        False, and nothing is changed, when its ``lease`` had been lost by the time ``at`` it was measured, or
        what is stored is not ``before`` any more: withdrawn, disbelieved, or measured by another board.
        """

    def log(self, job_id: int) -> list[Record]:
        """The job's log, by which its model is built: the best of each workload and pair of layouts, and the
        trials that are ``recommended``, those included that failed for good.

        So whoever builds by that log later gets what the job has delivered: where that is the untuned model
        (``Delivery.untuned``), there is no record.
        """

    def relayouts(self, target: Target, threads: int, clock: str) -> list[str]:
        """Measured conversions between layouts, as lines of a log; empty when there are none."""

    def delivered(self, job_id: int, delivery: Delivery, lease: int = 0) -> bool:
        """Keep what came of building the job's model; False, and nothing is kept, when the ``lease`` was
        lost."""

    def task_state(self, task_id: int, state: TaskState) -> None:
        """Keep what a task is doing."""

    def job_state(self, job_id: int, state: JobState, message: str) -> None:
        """Keep what a job is doing, and why when it did not end well (else an empty message)."""
