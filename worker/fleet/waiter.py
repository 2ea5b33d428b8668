"""A request in the dispatcher's queue."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from worker.fleet.known_board import Held
from worker.fleet.matching import Request
from worker.fleet.times import FleetTimes


@dataclass(eq=False)
class Waiter:
    """Who waits for a board; ``granted`` is the lease that comes of it."""

    request: Request
    granted: asyncio.Future[Held]
    hopeless_since: float | None = None
    order: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.order = self.request.order

    def out_of_patience(self, hope: bool, now: float, times: FleetTimes) -> float:
        """For how many seconds there has been no hope of a board, where that is too long; else 0."""
        if hope or self.hopeless_since is None:
            self.hopeless_since = None if hope else now
            return 0.0
        patience_s = times.job_patience_s if self.request.patient else times.patience_s
        return patience_s if now - self.hopeless_since > patience_s else 0.0
