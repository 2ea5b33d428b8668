"""What operators are told, and when: pure, from what there is at each look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from worker.fleet.states import Activity, Health
from worker.fleet.status import BoardStatus

_ABSENT_IS_NO_NEWS = (Health.MAINTENANCE, Health.RETIRED)
DRIFT = 1.2
"""From so many times a board's best reference time on, it is told that it became slower."""
_AGAIN = 1.1
"""Free disk over its limit from which a lack of it is news again, and how far below ``DRIFT`` a board's
time has to fall for that."""


@dataclass(frozen=True)
class Notice:
    """One piece of news: its ``kind``, a line for people, and what programs want to know."""

    kind: str
    text: str
    data: dict[str, Any]


@dataclass(frozen=True)
class EndedJob:
    """A job that ended, ``finished`` when it last did.

    ``model`` is the model's name, None where the job is of one workload; ``name`` and ``labels`` are what
    people call the job.
    """

    id: int
    model: str | None
    target: str
    state: str
    message: str
    finished: datetime
    name: str = ""
    labels: tuple[str, ...] = ()


@dataclass
class News:
    """Finds what is news: each thing once, and again only when it has been otherwise in between.

    A board that is not there is news after ``offline_s`` seconds, one that became slower from ``DRIFT`` on, a
    disk with less than ``disk_bytes`` at once. How boards are at the first look is none.
    """

    offline_s: float
    disk_bytes: int
    _told_jobs: set[tuple[int, datetime]] = field(default_factory=set)
    _health: dict[str, Health] = field(default_factory=dict)
    _away_since: dict[str, float] = field(default_factory=dict)
    _told_away: set[str] = field(default_factory=set)
    _told_drift: set[str] = field(default_factory=set)
    _disk_told: bool = False

    def look(
        self,
        jobs: Sequence[EndedJob],
        boards: Sequence[BoardStatus],
        free_bytes: int,
        now_s: float,
        drifts: Mapping[str, float] = MappingProxyType({}),
    ) -> list[Notice]:
        """The news since the last look; ``now_s`` is of any clock that goes on evenly, ``drifts`` are the
        times of boards' reference kernels over their best."""
        found = [self._job(job) for job in jobs if (job.id, job.finished) not in self._told_jobs]
        self._told_jobs = {(job.id, job.finished) for job in jobs}
        for board in boards:
            first = board.id not in self._health
            found += self._board(board, now_s)
            slower = self._drift(board, drifts.get(board.id, 1.0))
            found += [] if first else slower
        low = free_bytes < self.disk_bytes * (_AGAIN if self._disk_told else 1.0)
        if low and not self._disk_told:
            free_mb = free_bytes >> 20
            found.append(Notice("disk_low", f"{free_mb} MB are free on the disk", {"free_bytes": free_bytes}))
        self._disk_told = low
        return found

    def _job(self, job: EndedJob) -> Notice:
        name = f' "{job.name}"' if job.name else ""
        about = "; ".join((f"{job.model or 'one workload'} for {job.target}", *job.labels))
        message = f": {job.message}" if job.message else ""
        text = f"job {job.id}{name} ({about}) is {job.state}{message}"
        data = {"job": job.id, "name": job.name, "labels": list(job.labels), "model_name": job.model}
        data |= {"target": job.target, "state": job.state, "message": job.message}
        return Notice("job_ended", text, data)

    def _drift(self, board: BoardStatus, drift: float) -> list[Notice]:
        if drift < (DRIFT if board.id not in self._told_drift else 1 + (DRIFT - 1) / _AGAIN):
            self._told_drift.discard(board.id)
            return []
        if board.id in self._told_drift:
            return []
        self._told_drift.add(board.id)
        text = f"board {board.id} takes {drift:.2f} times as long as at its best for its reference kernel"
        return [Notice("board_drift", text, {"board": board.id, "target": board.target.name, "drift": drift})]

    def _board(self, board: BoardStatus, now_s: float) -> list[Notice]:
        found = []
        data = {"board": board.id, "target": board.target.name, "reason": board.reason}
        before = self._health.get(board.id, board.health)
        self._health[board.id] = board.health
        why = f": {board.reason}" if board.reason else ""
        if board.health is Health.BAD and before is not Health.BAD:
            found.append(Notice("board_bad", f"board {board.id} is bad{why}", data))
        if board.activity is not Activity.OFFLINE or board.health in _ABSENT_IS_NO_NEWS:
            self._away_since.pop(board.id, None)
            self._told_away.discard(board.id)
            return found
        away_s = now_s - self._away_since.setdefault(board.id, now_s)
        if away_s >= self.offline_s and board.id not in self._told_away:
            self._told_away.add(board.id)
            minutes = f"{away_s / 60:.0f} minutes"
            found.append(
                Notice("board_offline", f"board {board.id} has been offline for {minutes}{why}", data)
            )
        return found
