"""Events through Redis streams, for a service of several processes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from server.events.base import END, KEPT_EVENTS, USUAL, Event, EventTimes, is_id, up_to_end

log = logging.getLogger(__name__)
_EXPIRY_S = 24 * 3600
_UNSENT = 10_000
_ANSWER_S = 5.0
"""How long Redis may take to answer, besides what it is asked to wait."""

# A job's id with an event's name and data; no name means "begin".
_Message = tuple[int, str, dict[str, Any]]


class RedisEvents:
    """One stream a job. Redis is a carrier only: without it a job goes on, unwatched.

    Publishing puts into a queue, which one task empties in order.
    """

    def __init__(self, url: str, times: EventTimes = USUAL) -> None:
        self._times = times
        # Longer than ``follow`` waits: redis-py's own timeout of 5 s would end that.
        patience_s = times.idle_s + _ANSWER_S
        self._redis = Redis.from_url(
            url, decode_responses=True, health_check_interval=30, socket_timeout=patience_s
        )
        self._unsent: asyncio.Queue[_Message | None] = asyncio.Queue(_UNSENT)
        self._sender = asyncio.create_task(self._send())
        self._reachable = True

    def begin(self, job_id: int) -> None:
        """See ``Events.begin``."""
        self._put((job_id, "", {}))

    def publish(self, job_id: int, name: str, data: dict[str, Any]) -> None:
        """See ``Events.publish``."""
        self._put((job_id, name, data))

    async def history(self, job_id: int, after: str | None) -> list[Event]:
        """See ``Events.history``; what this process published before is in it."""
        await self._unsent.join()
        try:
            found = await self._redis.xrange(
                _key(job_id), min=f"({after}" if after is not None and is_id(after) else "-"
            )
        except RedisError as error:
            log.warning("no events of job %d from Redis: %s", job_id, error)
            return []
        return [_event(*each) for each in cast("list[tuple[str, dict[str, str]]]", found)]

    async def follow(self, job_id: int, after: str | None) -> AsyncIterator[list[Event]]:
        """See ``Events.follow``; ends early when Redis goes away, so that the reader comes back."""
        position = after if after is not None and is_id(after) else "0"
        await self._unsent.join()
        while True:
            try:
                found = await self._redis.xread(
                    {_key(job_id): position}, count=KEPT_EVENTS, block=round(self._times.idle_s * 1000)
                )
            except RedisError as error:
                log.warning("no events of job %d from Redis: %s", job_id, error)
                return
            burst = up_to_end([_event(*entry) for entry in _entries(found)])
            yield burst
            if burst:
                position = burst[-1].id
                if burst[-1].name == END:
                    return
                # Each reader has a connection to Redis, so each its own pause.
                await asyncio.sleep(self._times.flush_s)

    async def close(self) -> None:
        """See ``Events.close``."""
        try:
            await asyncio.wait_for(self._unsent.put(None), 5)
            await asyncio.wait_for(self._sender, 5)
        except TimeoutError:
            self._sender.cancel()
        await self._redis.aclose()

    def _put(self, message: _Message) -> None:
        try:
            self._unsent.put_nowait(message)
        except asyncio.QueueFull:
            log.warning("Redis takes no events: one of job %d is lost", message[0])

    async def _send(self) -> None:
        while (message := await self._unsent.get()) is not None:
            try:
                await self._send_one(*message)
                self._reachable = True
            except RedisError as error:
                if self._reachable:  # said once an outage, not once an event
                    log.warning("events do not reach Redis, from one of job %d on: %s", message[0], error)
                self._reachable = False
            finally:
                self._unsent.task_done()

    async def _send_one(self, job_id: int, name: str, data: dict[str, Any]) -> None:
        key = _key(job_id)
        if not name:
            # Not deleted: an emptied stream still knows its last id, so ids go on increasing.
            await self._redis.xtrim(key, maxlen=0, approximate=False)
            return
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xadd(key, {"name": name, "data": json.dumps(data)}, maxlen=KEPT_EVENTS)
            pipe.expire(key, _EXPIRY_S)
            await pipe.execute()


def _key(job_id: int) -> str:
    return f"tilefleet:events:{job_id}"


def _entries(found: Any) -> list[tuple[str, dict[str, str]]]:
    """The entries of the one stream read: RESP3 answers with a mapping, RESP2 with pairs."""
    streams = found.values() if isinstance(found, dict) else [pair[1] for pair in found or ()]
    for entries in streams:
        # RESP3 wraps the entries of a stream in one more list.
        return list(entries[0] if isinstance(found, dict) else entries)
    return []


def _event(id_: str, fields: dict[str, str]) -> Event:
    return Event(id_, fields["name"], json.loads(fields["data"]))
