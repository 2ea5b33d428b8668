"""What operators are told, and when: pure, from what there is at each look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from worker.fleet.states import Activity, Health
from worker.fleet.status import BoardStatus

_ABSENT_IS_NO_NEWS = (Health.MAINTENANCE, Health.RETIRED)
_AGAIN = 1.1
"""Free disk over its limit from which a lack of it is news again."""


@dataclass(frozen=True)
class Notice:
    """One piece of news: its ``kind``, a line for people, and what programs want to know."""

    kind: str
    text: str
    data: dict[str, Any]


@dataclass(frozen=True)
class EndedJob:
    """A job that ended, ``finished`` when it last did."""

    id: int
    name: str
    target: str
    state: str
    message: str
    finished: datetime


@dataclass
class News:
    """Finds what is news: each thing once, and again only when it has been otherwise in between.

    A board that is not there is news after ``offline_s`` seconds, a disk with less than ``disk_bytes`` at
    once. How boards are at the first look is none.
    """

    offline_s: float
    disk_bytes: int
    _told_jobs: set[tuple[int, datetime]] = field(default_factory=set)
    _health: dict[str, Health] = field(default_factory=dict)
    _away_since: dict[str, float] = field(default_factory=dict)
    _told_away: set[str] = field(default_factory=set)
    _disk_told: bool = False

    def look(
        self, jobs: Sequence[EndedJob], boards: Sequence[BoardStatus], free_bytes: int, now_s: float
    ) -> list[Notice]:
        """The news since the last look; ``now_s`` is of any clock that goes on evenly."""
        found = [self._job(job) for job in jobs if (job.id, job.finished) not in self._told_jobs]
        self._told_jobs = {(job.id, job.finished) for job in jobs}
        for board in boards:
            found += self._board(board, now_s)
        low = free_bytes < self.disk_bytes * (_AGAIN if self._disk_told else 1.0)
        if low and not self._disk_told:
            free_mb = free_bytes >> 20
            found.append(Notice("disk_low", f"{free_mb} MB are free on the disk", {"free_bytes": free_bytes}))
        self._disk_told = low
        return found

    def _job(self, job: EndedJob) -> Notice:
        text = f"job {job.id} ({job.name} for {job.target}) is {job.state}"
        data = {"job": job.id, "name": job.name, "target": job.target, "state": job.state}
        message = f": {job.message}" if job.message else ""
        return Notice("job_ended", text + message, {**data, "message": job.message})

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
