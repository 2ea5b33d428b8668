"""What waits to be sent to one place: a place that is slow keeps no other waiting."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from server.notices.notice import Notice
from server.notices.places import Place, deliver

KEPT = 1000
"""Notices that wait for one place at most; the oldest give way."""
log = logging.getLogger(__name__)


class Outbox:
    """Sends what is put into it to ``place``, one after the other, so that their order is kept."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.undelivered = 0
        """Notices that the place was not told."""
        self._waiting: deque[Notice] = deque()
        self._news = asyncio.Event()

    def put(self, notices: Sequence[Notice]) -> None:
        """Send these when those before them are sent."""
        self._waiting.extend(notices)
        if lost := max(0, len(self._waiting) - KEPT):
            for _ in range(lost):
                self._waiting.popleft()
            self.undelivered += lost
            log.warning("%s is too slow: it was not told of %d notices", self._place.name, lost)
        if self._waiting:
            self._news.set()

    async def run(self) -> None:
        """Send without end."""
        while True:
            await self._news.wait()
            while self._waiting:
                reason = await deliver(self._place, self._waiting.popleft())
                if reason is not None:
                    self.undelivered += 1
                    log.warning("%s was not told: %s", self._place.name, reason)
            self._news.clear()
