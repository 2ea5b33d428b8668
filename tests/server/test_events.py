"""One contract for both carriers of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest

from server.events.base import KEPT_EVENTS, Event, Events, EventTimes, LocalEvents
from server.events.redis import RedisEvents
from server.http.event_stream import event_stream

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


def run(make: Make, test: Callable[[Events], Awaitable[None]]) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Events]:
        events = make()
        yield events
        await events.close()

    async def main() -> None:
        async with opened() as events:
            await asyncio.wait_for(test(events), 200)

    asyncio.run(main())


async def take(events: Events, job: int, after: str | None = None) -> list[Event]:
    return [event async for burst in events.follow(job, after) for event in burst]


def test_follows_to_the_end_and_replays_behind_an_id(make: Make, job: int) -> None:
    async def test(events: Events) -> None:
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

    run(make, test)


def test_who_follows_before_the_first_event_is_not_forgotten_for_other_jobs(make: Make, job: int) -> None:
    async def test(events: Events) -> None:
        early = asyncio.create_task(take(events, job))
        await asyncio.sleep(0.05)
        for other in range(1, 100):
            events.publish(job + other, "end", {"state": "done"})
            await events.history(job + 1000 + other, None)
        events.publish(job, "end", {"state": "done"})
        assert [event.name for event in await asyncio.wait_for(early, 60)] == ["end"]

    run(make, test)


def test_a_new_run_forgets_the_old_end_and_ids_go_on(make: Make, job: int) -> None:
    async def test(events: Events) -> None:
        events.publish(job, "end", {"state": "cancelled"})
        (old,) = await take(events, job)
        events.begin(job)
        events.publish(job, "state", {"state": "running"})
        follower = asyncio.create_task(take(events, job, after=old.id))
        await asyncio.sleep(0.05)
        events.publish(job, "end", {"state": "done"})
        assert [event.name for event in await follower] == ["state", "end"]
        assert [event.name for event in await events.history(job, None)] == ["state", "end"]

    run(make, test)


def test_only_the_last_events_are_kept(make: Make, job: int) -> None:
    async def test(events: Events) -> None:
        for number in range(2 * KEPT_EVENTS):
            events.publish(job, "trial", {"number": number})
        kept = await events.history(job, None)
        # Redis trims by whole nodes of a hundred entries.
        assert KEPT_EVENTS <= len(kept) <= KEPT_EVENTS + 100
        assert kept[-1].data == {"number": 2 * KEPT_EVENTS - 1}

    run(make, test)


def test_several_subscribers_see_the_same(make: Make, job: int) -> None:
    async def test(events: Events) -> None:
        followers = [asyncio.create_task(take(events, job)) for _ in range(5)]
        for number in range(50):
            events.publish(job, "trial", {"number": number})
            await asyncio.sleep(0)
        events.publish(job, "end", {})
        seen = await asyncio.gather(*followers)
        assert len(seen[0]) == 51
        assert all(each == seen[0] for each in seen)

    run(make, test)


def test_a_subscriber_gets_what_has_come_in_one_piece(make: Make, job: int) -> None:
    times = EventTimes(flush_s=1.5)  # however long Redis takes for all of them

    async def test(events: Events) -> None:
        pieces: list[bytes] = []

        async def subscribe() -> None:
            async for piece in event_stream(events.follow(job, None)).body_iterator:
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

    run(partial(make, times=times), test)


def test_news_do_not_wait_and_take_with_them_what_may() -> None:
    times = EventTimes(flush_s=0.05, patient_s=1000.0)

    async def test(events: Events) -> None:
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

    run(partial(LocalEvents, times), test)


def test_an_idle_stream_says_that_it_lives(make: Make, job: int) -> None:
    async def test(events: Events) -> None:
        async for piece in event_stream(events.follow(job, None)).body_iterator:
            assert piece == b": ping\n\n"
            return

    run(partial(make, times=EventTimes(idle_s=0.05)), test)


def test_waiting_at_redis_is_no_outage(redis_url: str, job: int, caplog: pytest.LogCaptureFixture) -> None:
    times = EventTimes(idle_s=6.0)  # redis-py itself gives up after 5

    async def main() -> None:
        events = RedisEvents(redis_url, times)
        follower = events.follow(job, None)
        assert await anext(follower) == []
        events.publish(job, "end", {})
        assert [event.name for event in await anext(follower)] == ["end"]
        await events.close()

    asyncio.run(asyncio.wait_for(main(), 200))
    assert caplog.messages == []


def test_ids_survive_a_restart(make: Make, job: int) -> None:
    """A reader that comes back after a restart with an old id misses nothing that is new."""

    async def main() -> list[Event]:
        first = make()
        first.publish(job, "trial", {})
        (old,) = await first.history(job, None)
        await first.close()
        second = make()
        second.publish(job, "end", {})
        seen = await take(second, job, after=old.id)
        await second.close()
        return seen

    assert [event.name for event in asyncio.run(main())] == ["end"]


def test_other_processes_follow_through_redis(redis_url: str, job: int) -> None:
    async def main() -> list[Event]:
        publisher, subscriber = RedisEvents(redis_url), RedisEvents(redis_url)
        follower = asyncio.create_task(take(subscriber, job))
        await asyncio.sleep(0.05)
        publisher.publish(job, "end", {"state": "done"})
        seen = await asyncio.wait_for(follower, 200)
        await publisher.close()
        await subscriber.close()
        return seen

    assert [event.data for event in asyncio.run(main())] == [{"state": "done"}]


def test_a_missing_redis_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        events = RedisEvents("unix:///nonexistent/socket")
        for _ in range(5):
            events.publish(1, "trial", {})
        assert await events.history(1, None) == []
        assert await take(events, 1) == []
        await events.close()

    asyncio.run(asyncio.wait_for(main(), 200))
    assert sum("do not reach Redis" in message for message in caplog.messages) == 1, "once an outage"
