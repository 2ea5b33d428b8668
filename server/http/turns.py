"""Turns at something heavy, shared between those who ask, so that no client has all of them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.requests import Request

from server.http.gone import watched
from server.http.problems import Problem


@dataclass(eq=False)
class _Waiting:
    """A request in the queue: which client's, whether it may be refused, and what is set when it is its
    turn."""

    client: str
    refusable: bool
    turn: asyncio.Future[None] = field(default_factory=asyncio.Future)


class Turns:
    """Lets a few requests ``at_once`` do something heavy, at most ``each`` of one client (by its address).

    Of those who wait, the client that has the fewest turns now goes first, then the one that had none for
    longest. When ``most`` wait, the client with the most of them gets 503 for its last. Who waits holds no
    thread.
    """

    def __init__(self, most: int, at_once: int = 1, each: int | None = None) -> None:
        self._most, self._free, self._each = most, at_once, at_once if each is None else each
        self._queue: list[_Waiting] = []
        self._running: Counter[str] = Counter()
        self._served: dict[str, int] = {}
        self._turns = 0

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return len(self._queue)

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[threading.Event]:
        """Wait for a turn and have it; the event is set once the one who sent ``request`` has gone."""
        async with self.part(request):
            if await request.is_disconnected():
                raise Problem(400, "the connection broke while the request waited for its turn")
            async with watched(request.is_disconnected, threading.Event()) as gone:
                yield gone

    @asynccontextmanager
    async def part(self, request: Request, *, begun: bool = False) -> AsyncIterator[None]:
        """A turn at a part of an answer. One that has ``begun`` is not refused, however many wait."""
        client = request.client.host if request.client else ""
        await self._wait(client, refusable=not begun)
        try:
            yield
        finally:
            self._end(client)

    async def _wait(self, client: str, *, refusable: bool) -> None:
        mine = _Waiting(client, refusable)
        self._queue.append(mine)
        self._give()
        if sum(one.refusable for one in self._queue) > self._most:
            self._refuse_one()
        try:
            await mine.turn
        except asyncio.CancelledError:
            if mine in self._queue:
                self._queue.remove(mine)
                self._forget(client)
            elif mine.turn.done() and not mine.turn.cancelled() and mine.turn.exception() is None:
                self._end(client)  # it came and was not wanted any more
            raise

    def _give(self) -> None:
        """Give free turns to those who are next."""
        while self._free:
            able = [
                one for one in self._queue if not one.turn.done() and self._running[one.client] < self._each
            ]
            if not able:
                return
            chosen = min(able, key=lambda one: (self._running[one.client], self._served.get(one.client, 0)))
            self._queue.remove(chosen)
            self._free -= 1
            self._running[chosen.client] += 1
            self._turns += 1
            self._served[chosen.client] = self._turns
            chosen.turn.set_result(None)

    def _end(self, client: str) -> None:
        self._free += 1
        self._running[client] -= 1
        self._forget(client)
        self._give()

    def _refuse_one(self) -> None:
        able = [one for one in self._queue if one.refusable and not one.turn.done()]
        held = Counter(one.client for one in able)
        most = max(held.values())
        last = next(one for one in reversed(able) if held[one.client] == most)
        self._queue.remove(last)
        self._forget(last.client)
        others = f"{self._most} other requests wait for this already; try again later"
        last.turn.set_exception(Problem(503, others))

    def _forget(self, client: str) -> None:
        """Keep nothing of a client that has no turn and waits for none."""
        if not self._running[client] and all(one.client != client for one in self._queue):
            del self._running[client]
            self._served.pop(client, None)
