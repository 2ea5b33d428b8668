"""What is shown of a board: its standing, what it does for whom, and what it was used for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kernels.target import Target
from worker.fleet.book import Check, Lease
from worker.fleet.states import Activity, Health


@dataclass
class BoardStatus:
    """A board as the dispatcher sees it.

    ``reason`` says why its health is not good, or why it drains. ``lease`` is the present one, whoever holds
    it, ``expires`` when it ends unless renewed, and ``job`` whose trials it is for. ``trials``, ``busy_s``
    (spent on trials) and ``timed_s`` (of that, inside the timer) are totals of all ended leases in the book;
    ``last_seen`` is in seconds since the epoch. ``reference_s`` is the best time of the reference kernel.
    """

    id: str
    target: Target
    clock: str
    threads: int
    tags: tuple[str, ...] = ()
    alive: bool = True
    activity: Activity = Activity.IDLE
    health: Health = Health.GOOD
    reason: str = ""
    draining: bool = False
    lease: Lease | None = None
    expires: datetime | None = None
    job: int | None = None
    trials: int = 0
    busy_s: float = 0.0
    timed_s: float = 0.0
    last_seen: float = 0.0
    reference_s: float | None = None
    last_check: Check | None = None
    checked: datetime | None = None
