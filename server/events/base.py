"""Events of jobs and boards, replayed and followed by subscribers; here within one process."""

from __future__ import annotations

import asyncio
import json
import math
import re
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

END = "end"
BOARDS = 0
"""The boards' channel, among those of jobs: it has no end."""
KEPT_EVENTS = 1000
"""How many events of a job can be replayed."""
_KEPT_JOBS = 64
"""How many that ended."""


@dataclass(frozen=True)
class EventTimes:
    """When events are sent; all in seconds."""

    idle_s: float = 15.0
    """Who follows hears so often that there is nothing to hear."""
    flush_s: float = 0.4
    """How long events are gathered after some were sent: hundreds may watch, and sending is what they cost.
    What comes after a pause is sent at once."""
    patient_s: float = 0.9
    """How long PATIENT events may wait, until others are sent."""


USUAL = EventTimes()
PATIENT = ("trial", "progress")
"""Events of which there are many, and none is news by itself."""


@dataclass(frozen=True)
class Event:
    """One event of a job; ``id`` is opaque and increasing, also over restarts of the service."""

    id: str
    name: str
    data: dict[str, Any]

    @cached_property
    def wire(self) -> bytes:
        """It as a Server-Sent Event, made once for all subscribers."""
        data = json.dumps(self.data, separators=(",", ":"))
        return f"event: {self.name}\ndata: {data}\nid: {self.id}\n\n".encode()


class Events(Protocol):
    """Carries events from a job to its subscribers. All methods belong to the event loop's thread."""

    def begin(self, job_id: int) -> None:
        """Forget earlier runs of the job: their ``end`` is not the end any more."""

    def publish(self, job_id: int, name: str, data: dict[str, Any]) -> None:
        """Send an event; never waits and never fails for want of a reader."""

    async def history(self, job_id: int, after: str | None) -> list[Event]:
        """The events there are, those behind the id ``after`` when it is given and an id."""

    def follow(self, job_id: int, after: str | None) -> AsyncIterator[list[Event]]:
        """``history``, then what is published from now on, up to the job's ``end``.

        In bursts: all that has come since the last one, gathered for ``flush_s`` or, where nothing is urgent,
        for ``patient_s``. After ``idle_s`` without any, an empty one.
        """

    async def close(self) -> None:
        """Send what is still to be sent, and let go of everything."""


class _Channel:
    """The last events of a job, and one timer for all who follow it: they are woken together."""

    def __init__(self, times: EventTimes) -> None:
        self._times = times
        self.events: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self.flushed = asyncio.Event()
        self._last_flush_s = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def add(self, event: Event) -> None:
        """Keep an event, and wake those who follow when it is due."""
        self.events.append(event)
        loop = asyncio.get_running_loop()
        pause_s = self._times.patient_s if event.name in PATIENT else self._times.flush_s
        due_s = max(self._last_flush_s + pause_s, loop.time())
        if self._timer is not None:
            if self._timer.when() <= due_s:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due_s, self._flush)

    def behind(self, number: int) -> list[Event]:
        """The events with greater ids."""
        found: list[Event] = []
        # From the newest: every subscriber comes here for every burst.
        for event in reversed(self.events):
            if int(event.id) <= number:
                break
            found.append(event)
        return found[::-1]

    def _flush(self) -> None:
        self._timer, self._last_flush_s = None, asyncio.get_running_loop().time()
        self.flushed.set()
        self.flushed = asyncio.Event()


class LocalEvents:
    """Events within this process: a ring of the last ones for each job.

    A subscriber reads from the ring at its own speed, so a slow one costs no memory and loses the oldest.
    """

    def __init__(self, times: EventTimes = USUAL) -> None:
        self._times = times
        self._channels: dict[int, _Channel] = {}
        self._over: OrderedDict[int, None] = OrderedDict()
        """Of these the channels of jobs that ended, the one that ended first first."""
        self._last_id = 0

    def begin(self, job_id: int) -> None:
        """See ``Events.begin``."""
        self._over.pop(job_id, None)
        self._channel(job_id).events.clear()

    def publish(self, job_id: int, name: str, data: dict[str, Any]) -> None:
        """See ``Events.publish``."""
        # Ids follow the clock, so that one from before a restart is smaller than all from after it.
        self._last_id = max(self._last_id + 1, time.time_ns() // 1000)
        self._channel(job_id).add(Event(str(self._last_id), name, data))
        if name == END:
            self._over[job_id] = None
            if len(self._over) > _KEPT_JOBS:
                del self._channels[self._over.popitem(last=False)[0]]

    async def history(self, job_id: int, after: str | None) -> list[Event]:
        """See ``Events.history``."""
        channel = self._channels.get(job_id)
        return channel.behind(_number(after)) if channel else []

    async def follow(self, job_id: int, after: str | None) -> AsyncIterator[list[Event]]:
        """See ``Events.follow``."""
        channel, number = self._channel(job_id), _number(after)
        while True:
            flushed = channel.flushed
            burst = up_to_end(channel.behind(number))
            if burst:
                number = int(burst[-1].id)
                yield burst
                if burst[-1].name == END:
                    return
            try:
                async with asyncio.timeout(self._times.idle_s):
                    await flushed.wait()
            except TimeoutError:
                yield []

    async def close(self) -> None:
        """See ``Events.close``."""
        self._channels.clear()
        self._over.clear()

    def _channel(self, job_id: int) -> _Channel:
        return self._channels.setdefault(job_id, _Channel(self._times))


def up_to_end(events: list[Event]) -> list[Event]:
    """The events up to the job's end, all when it is not among them."""
    end = next((at for at, event in enumerate(events) if event.name == END), len(events))
    return events[: end + 1]


def is_id(text: str) -> bool:
    """Whether ``text`` is an event's id as some implementation makes them."""
    return re.fullmatch(r"\d{1,18}(-\d{1,18})?", text) is not None


def _number(after: str | None) -> int:
    return int(after.split("-")[0]) if after is not None and is_id(after) else 0
