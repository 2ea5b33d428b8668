"""Fair shares between jobs: start-time fair queueing, one virtual clock for all jobs of a kind of board."""

from __future__ import annotations

from collections import defaultdict


class VirtualTime:
    """Gives each batch a virtual start, which is its turn: the lowest goes first.

    A job's batches start where its last one ended, so a job of few trials overtakes a long one. A job that
    joins late, or has paused, starts at the present virtual time, not at 0. Each ``kind`` of board has a
    time of its own: a slow kind must not seem behind because of a fast one.
    """

    def __init__(self) -> None:
        self._now: dict[str, float] = defaultdict(float)
        self._ends: dict[int, float] = {}

    def begin(self, job_id: int, size: float, kind: str = "") -> float:
        """The virtual start of a batch of ``size`` (trials or seconds, the same for all jobs)."""
        start = max(self._now[kind], self._ends.get(job_id, 0.0))
        self._ends[job_id] = start + size
        return start

    def finish(self, start: float, kind: str = "") -> None:
        """Say that the batch with this start was served: virtual time is now there."""
        self._now[kind] = max(self._now[kind], start)

    def leave(self, job_id: int) -> None:
        """Forget a job that ended."""
        self._ends.pop(job_id, None)
