"""Whether the one who asked still waits for the answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from worker.engine.asyncio_tasks import end

LOOK_S = 0.5
Gone = Callable[[], Awaitable[bool]]
"""A request's ``is_disconnected``."""


Event = TypeVar("Event", asyncio.Event, threading.Event)


@asynccontextmanager
async def watched(gone: Gone, event: Event) -> AsyncIterator[Event]:
    """``event``, which is set once the one who asked has ``gone``."""
    watch = asyncio.create_task(_watch(gone, event))
    try:
        yield event
    finally:
        await end(watch)


async def _watch(gone: Gone, event: asyncio.Event | threading.Event) -> None:
    while not await gone():
        await asyncio.sleep(LOOK_S)
    event.set()
