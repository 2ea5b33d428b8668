"""A request in the dispatcher's queue."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from worker.fleet.known_board import Held
from worker.fleet.matching import Request


@dataclass(eq=False)
class Waiter:
    """Who waits for a board; ``granted`` is the lease that comes of it."""

    request: Request
    granted: asyncio.Future[Held]
    hopeless_since: float | None = None
    order: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.order = self.request.order
