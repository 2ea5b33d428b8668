"""Fair shares between jobs: start-time fair queueing, one virtual clock for all of a process's jobs."""

from __future__ import annotations


class VirtualTime:
    """Gives each batch a virtual start; its negative is the batch's priority.

    A job's batches start where its last one ended, so a job of few trials overtakes a long one. A job that
    joins late, or has paused, starts at the present virtual time, not at 0.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._ends: dict[int, float] = {}

    def begin(self, job_id: int, size: float) -> float:
        """The virtual start of a batch of ``size`` (trials or seconds, the same for all jobs)."""
        start = max(self._now, self._ends.get(job_id, 0.0))
        self._ends[job_id] = start + size
        return start

    def finish(self, start: float) -> None:
        """Say that the batch with this start was served: virtual time is now there."""
        self._now = max(self._now, start)

    def leave(self, job_id: int) -> None:
        """Forget a job that ended."""
        self._ends.pop(job_id, None)
