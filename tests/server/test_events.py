"""One contract for both carriers of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from server.events.base import KEPT_EVENTS, Event, Events, EventTimes, LocalEvents
from server.events.redis import RedisEvents
from server.http.event_stream import pieces as wire

Make = Callable[..., Events]


@pytest.fixture(params=["local", "redis"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "local":
        return LocalEvents
    url = request.getfixturevalue("redis_url")
    return partial(RedisEvents, url)


@pytest.fixture
def job(request: pytest.FixtureRequest) -> int:
    """A job's id that no other test on the same Redis uses."""
    return abs(hash(request.node.name)) % 2**40


@asynccontextmanager
async def opened(make: Make) -> AsyncIterator[Events]:
    events = make()
    yield events
    await events.close()


async def take(events: Events, job: int, after: str | None = None) -> list[Event]:
    return [event async for burst in events.follow(job, after) for event in burst]


async def test_follows_to_the_end_and_replays_behind_an_id(make: Make, job: int) -> None:
    async with opened(make) as events:
        events.publish(job, "trial", {"number": 0})
        early = asyncio.create_task(take(events, job))
        await asyncio.sleep(0.05)
        for number in (1, 2):
            events.publish(job, "trial", {"number": number})
        events.publish(job + 1, "trial", {"number": 99})
        events.publish(job, "end", {"state": "done"})
        seen = await early
        assert [event.data for event in seen] == [
            {"number": 0},
            {"number": 1},
            {"number": 2},
            {"state": "done"},
        ]
        assert await take(events, job) == seen
        assert await take(events, job, after=seen[1].id) == seen[2:]
        assert await events.history(job, None) == seen
        assert await events.history(job, seen[2].id) == seen[3:]
        assert await events.history(job, seen[3].id) == []
        assert await events.history(job, "no id") == seen


async def test_who_follows_before_the_first_event_is_not_forgotten_for_other_jobs(
    make: Make, job: int
) -> None:
    async with opened(make) as events:
        early = asyncio.create_task(take(events, job))
        await asyncio.sleep(0.05)
        for other in range(1, 100):
            events.publish(job + other, "end", {"state": "done"})
            await events.history(job + 1000 + other, None)
        events.publish(job, "end", {"state": "done"})
        assert [event.name for event in await asyncio.wait_for(early, 60)] == ["end"]


async def test_a_new_run_forgets_the_old_end_and_ids_go_on(make: Make, job: int) -> None:
    async with opened(make) as events:
        events.publish(job, "end", {"state": "cancelled"})
        (old,) = await take(events, job)
        events.begin(job)
        events.publish(job, "state", {"state": "running"})
        follower = asyncio.create_task(take(events, job, after=old.id))
        await asyncio.sleep(0.05)
        events.publish(job, "end", {"state": "done"})
        assert [event.name for event in await follower] == ["state", "end"]
        assert [event.name for event in await events.history(job, None)] == ["state", "end"]


async def test_only_the_last_events_are_kept(make: Make, job: int) -> None:
    async with opened(make) as events:
        for number in range(2 * KEPT_EVENTS):
            events.publish(job, "trial", {"number": number})
        kept = await events.history(job, None)
        # Redis trims by whole nodes of a hundred entries.
        assert KEPT_EVENTS <= len(kept) <= KEPT_EVENTS + 100
        assert kept[-1].data == {"number": 2 * KEPT_EVENTS - 1}


async def test_several_subscribers_see_the_same(make: Make, job: int) -> None:
    async with opened(make) as events:
        followers = [asyncio.create_task(take(events, job)) for _ in range(5)]
        for number in range(50):
            events.publish(job, "trial", {"number": number})
            await asyncio.sleep(0)
        events.publish(job, "end", {})
        seen = await asyncio.gather(*followers)
        assert len(seen[0]) == 51
        assert all(each == seen[0] for each in seen)


async def test_a_subscriber_gets_what_has_come_in_one_piece(make: Make, job: int) -> None:
    times = EventTimes(flush_s=1.5)  # however long Redis takes for all of them
    async with opened(partial(make, times=times)) as events:
        pieces: list[bytes] = []

        async def subscribe() -> None:
            async for piece in wire(events.follow(job, None)):
                pieces.append(bytes(piece))

        subscriber = asyncio.create_task(subscribe())
        await asyncio.sleep(0.05)
        for number in range(20):
            events.publish(job, "trial", {"number": number})
            await asyncio.sleep(0)
        events.publish(job, "end", {})
        await subscriber
        assert b"".join(pieces).count(b"event: trial\n") == 20
        assert b"event: end\ndata: {}\nid: " in pieces[-1]
        # The first comes at once, the others together.
        assert len(pieces) <= 4


async def test_news_do_not_wait_and_take_with_them_what_may() -> None:
    async with opened(partial(LocalEvents, EventTimes(flush_s=0.05, patient_s=1000.0))) as events:
        bursts: list[list[str]] = []

        async def subscribe() -> None:
            async for burst in events.follow(1, None):
                bursts.append([event.name for event in burst])

        async def sent(count: int) -> None:
            while len(bursts) < count:
                await asyncio.sleep(0.01)

        subscriber = asyncio.create_task(subscribe())
        await asyncio.sleep(0)
        events.publish(1, "trial", {})
        await sent(1)
        events.publish(1, "trial", {})
        events.publish(1, "progress", {})
        await asyncio.sleep(0.3)
        assert bursts == [["trial"]], "the first is sent at once, the others are gathered"
        events.publish(1, "best", {})
        await sent(2)
        events.publish(1, "trial", {})
        events.publish(1, "end", {})
        await subscriber
        assert bursts[1:] == [["trial", "progress", "best"], ["trial", "end"]]


async def test_an_idle_stream_says_that_it_lives(make: Make, job: int) -> None:
    async with opened(partial(make, times=EventTimes(idle_s=0.05))) as events:
        async for piece in wire(events.follow(job, None)):
            assert piece == b": ping\n\n"
            return


async def test_waiting_at_redis_is_no_outage(
    redis_url: str, job: int, caplog: pytest.LogCaptureFixture
) -> None:
    times = EventTimes(idle_s=6.0)  # redis-py itself gives up after 5
    events = RedisEvents(redis_url, times)
    follower = events.follow(job, None)
    assert await anext(follower) == []
    events.publish(job, "end", {})
    assert [event.name for event in await anext(follower)] == ["end"]
    await events.close()
    assert caplog.messages == []


async def test_ids_survive_a_restart(make: Make, job: int) -> None:
    """A reader that comes back after a restart with an old id misses nothing that is new."""
    async with opened(make) as first:
        first.publish(job, "trial", {})
        (old,) = await first.history(job, None)
    async with opened(make) as second:
        second.publish(job, "end", {})
        assert [event.name for event in await take(second, job, after=old.id)] == ["end"]


async def test_other_processes_follow_through_redis(redis_url: str, job: int) -> None:
    make = partial(RedisEvents, redis_url)
    async with opened(make) as publisher, opened(make) as subscriber:
        follower = asyncio.create_task(take(subscriber, job))
        await asyncio.sleep(0.05)
        publisher.publish(job, "end", {"state": "done"})
        assert [event.data for event in await follower] == [{"state": "done"}]


async def test_a_missing_redis_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    events = RedisEvents("unix:///nonexistent/socket")
    for _ in range(5):
        events.publish(1, "trial", {})
    assert await events.history(1, None) == []
    assert await take(events, 1) == []
    await events.close()
    assert sum("do not reach Redis" in message for message in caplog.messages) == 1, "once an outage"
