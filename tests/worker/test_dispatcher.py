"""The dispatcher in virtual time: synthetic boards, the real matching, leases and health."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import virtual_time

from bench.fleet_simulation import BATCH, Fleet, Job
from kernels.target import CATALOGUE
from worker.demand import Demand
from worker.fleet.book import Check, Listing, Purpose, Usage
from worker.fleet.dispatcher import MOST_GONE, CannotCheck, Dispatcher, NoBoard
from worker.fleet.matching import Request
from worker.fleet.memory_book import MemoryBook
from worker.fleet.states import MAX_FAILURES, Activity, Health
from worker.fleet.times import USUAL

TARGET = CATALOGUE["rpi4"]
LOOP = virtual_time.VirtualLoop
numbers = itertools.count(1)


def listing(id="a", **more):
    return Listing(id, TARGET, "wall", 1, **more)


def request(target=TARGET, avoid=frozenset(), **more):
    return Request(next(numbers), Demand(target, **more), virtual_time.clock(), avoid)


class Scene:
    """One coordinator; checks take a second and fail while ``problem`` has an entry for the board; while the
    scheduler is ``away`` there are none."""

    def __init__(self, book, holder):
        self.book, self.problem, self.checks, self.away = book, {}, [], False
        self.dispatcher = Dispatcher(book, self.check, holder, threaded=False)

    async def check(self, board, entry):
        self.checks.append((virtual_time.clock(), board))
        await asyncio.sleep(1)
        if self.away:
            await self.dispatcher.seen([])
            raise CannotCheck("the scheduler does not answer")
        return Check(1e-3, self.problem.get(board, ""))

    def board(self, id="a"):
        return next(board for board in self.dispatcher.boards() if board.id == id)


@asynccontextmanager
async def scene(*boards, book=None, holder="me"):
    made = Scene(book or MemoryBook(virtual_time.clock), holder)
    await made.dispatcher.start()
    await made.dispatcher.seen(boards)
    try:
        yield made
    finally:
        await made.dispatcher.close()


def simulate(boards, jobs, seconds, trouble=None):
    async def main():
        fleet = Fleet(boards, jobs, trial_s=0.25, book=MemoryBook(virtual_time.clock), threaded=False)
        return await fleet.run(seconds, trouble), fleet

    return virtual_time.run(main())


def test_throughput_is_linear_up_to_200_boards():
    alone, _ = simulate(1, [Job(1)], 40)
    for boards in (20, 200):
        report, _ = simulate(boards, [Job(number, number % 3) for number in range(boards // 10)], 40)
        assert report["utilisation"] > 0.95
        assert report["trials_per_s"] / alone["trials_per_s"] == pytest.approx(boards, rel=0.05)
        assert (report["lost"], report["duplicated"]) == (0, 0)


def test_jobs_of_one_priority_share_and_a_higher_one_goes_first():
    jobs = [Job(number) for number in range(8)]
    report, fleet = simulate(20, jobs, 120)
    shares = [sum(job.measured.values()) / report["trials"] for job in jobs]
    assert min(shares) > 0.95 / len(jobs)
    # Its third request waits while two are measured, so that it has the next board to come free.
    _, fleet = simulate(2, [Job(1, priority=5), *(Job(number) for number in range(2, 5))], 60)
    assert Counter(fleet.grants)[1] / len(fleet.grants) > 0.8


def test_nothing_is_lost_or_counted_twice_when_boards_die_and_leases_are_taken_away():
    async def trouble(fleet):
        victims = list(fleet.boards.values())
        for round in range(40):
            await asyncio.sleep(2)
            board = victims[fleet.random.randrange(len(victims))]
            match round % 4:
                case 0:  # gone for a while
                    board.up = False
                    asyncio.get_running_loop().call_later(15, setattr, board, "up", True)
                case 1:  # another coordinator ends its lease
                    fleet.book.revoke(board.id, "a test")
                case 2:
                    await fleet.dispatcher.park(board.id, "a test")
                    await asyncio.sleep(1)
                    await fleet.dispatcher.put_back(board.id, "a test")
                case 3:
                    await fleet.dispatcher.drain(board.id, "a test")
                    await asyncio.sleep(5)
                    await fleet.dispatcher.put_back(board.id, "a test")
        for board in victims:  # so that all work can end
            board.up = True
            await fleet.dispatcher.put_back(board.id, "the test is over")

    report, fleet = simulate(20, [Job(number, number % 2) for number in range(5)], 120, trouble)
    assert (report["lost"], report["duplicated"]) == (0, 0)
    assert report["utilisation"] > 0.8
    ended = Counter(how for how, _ in fleet.book.ended.values())
    assert ended["revoked"] >= 10
    assert ended["released"] > report["trials"] / BATCH
    assert {"fault", "park", "drain", "drained"} <= {kind for _, kind, _ in fleet.book.history}


async def test_a_new_board_serves_after_its_check_and_one_that_failed_after_the_next():
    async with scene(listing()) as it:
        assert it.board().health is Health.UNKNOWN
        async with it.dispatcher.lease(request(job=4)) as held:
            assert virtual_time.clock() == pytest.approx(1, abs=0.1)
            board = it.board()
            assert (board.activity, board.job) == (Activity.MEASURING, 4)
            held.fault("upload cut")
        assert (it.board().health, it.board().reason) == (Health.UNKNOWN, "upload cut")
        assert (await next_lease(it)).token > held.lease.token
        assert virtual_time.clock() == pytest.approx(2, abs=0.1)


async def next_lease(it, **more):
    async with it.dispatcher.lease(request(**more)) as held:
        held.used(Usage(8, 1.0, 0.8))
        return held.lease


async def test_a_board_whose_checks_fail_is_parked_until_it_is_put_back():
    async with scene(listing()) as it:
        it.problem["a"] = "wrong result"
        await asyncio.sleep(60)
        assert len(it.checks) == MAX_FAILURES
        pauses = [later - before for (before, _), (later, _) in itertools.pairwise(it.checks)]
        assert pauses == sorted(pauses)
        assert pauses[0] > 2
        assert (it.board().health, it.board().reason) == (Health.BAD, "wrong result")
        with pytest.raises(NoBoard, match="the only board that fits, a, is parked: wrong result"):
            await next_lease(it)
        it.problem.clear()
        await it.dispatcher.put_back("a", "repaired")
        assert (await next_lease(it)).board == "a"


async def test_a_bad_board_that_is_started_here_is_tried_again_after_ever_longer_pauses():
    async with scene(listing(started_here=True), listing("b")) as it:
        it.problem = {"a": "no memory", "b": "no memory"}
        await asyncio.sleep(60)
        assert {it.board(id).health for id in "ab"} == {Health.BAD}
        before = len(it.checks)
        await asyncio.sleep(960)
        tried = [when for when, board in it.checks[before:] if board == "a"]
        assert [board for _, board in it.checks].count("b") == MAX_FAILURES
        pauses = [round((after - before) / 60) for before, after in itertools.pairwise(tried)]
        assert pauses == [2, 4, 8]
        it.problem = {}
        await asyncio.sleep(1000)
        assert it.board("a").health == Health.GOOD
        assert it.board("b").health == Health.BAD


async def test_a_liar_that_is_started_here_stays_parked():
    async with scene(listing(started_here=True)) as it:
        await asyncio.sleep(5)
        async with it.dispatcher.lease(request()) as held:
            held.why_lying = "a call took -1 s"
        await asyncio.sleep(7200)
        assert it.board().health == Health.BAD
        assert it.board().reason == "a call took -1 s"


async def test_a_board_that_goes_away_during_its_check_has_not_failed():
    async with scene(listing()) as it:
        for _ in range(MAX_FAILURES + 1):
            async with it.dispatcher.lease(request()) as held:
                held.doubt("frozen")
            it.problem["a"] = "no session"
            await asyncio.sleep(0.5)
            await it.dispatcher.seen([])
            await asyncio.sleep(5)
            assert (it.board().health, it.board().activity) == (Health.UNKNOWN, Activity.OFFLINE)
            it.problem.clear()
            await it.dispatcher.seen([listing()])
        assert (await next_lease(it)).board == "a"
        assert "bad_check" not in [kind for _, kind, _ in it.book.history]


async def test_a_board_that_goes_away_in_every_check_is_parked():
    """Else a job would wait for it for ever."""

    async with scene(listing()) as it:
        it.problem["a"] = "no session"
        waiting = asyncio.ensure_future(next_lease(it))
        for _ in range(MOST_GONE + MAX_FAILURES):
            assert it.board().health is Health.UNKNOWN
            await asyncio.sleep(0.5)
            await it.dispatcher.seen([])
            await asyncio.sleep(10)
            await it.dispatcher.seen([listing()])
        assert it.board().health is Health.BAD
        with pytest.raises(NoBoard):
            await waiting


async def test_a_board_that_nobody_can_be_asked_about_has_not_failed():
    async with scene(listing()) as it:
        it.away = True
        for _ in range(2 * MOST_GONE):
            await it.dispatcher.seen([listing()])
            await asyncio.sleep(10)
        assert (it.board().activity, it.board().health) == (Activity.OFFLINE, Health.UNKNOWN)
        assert it.book.entries()["a"].standing.failures == 0
        assert len(it.checks) == 2 * MOST_GONE
        it.away = False
        await it.dispatcher.seen([listing()])
        await asyncio.sleep(2)
        assert it.board().health is Health.GOOD


async def test_a_busy_wall_clock_board_is_compared_with_its_reference_again():
    async with scene(listing(), replace(listing("sim"), clock="simulated:x")) as it:
        for _ in range(10):
            async with it.dispatcher.lease(request(avoid=frozenset({"sim"}))) as held:
                assert held.lease.board == "a"
                held.used(Usage(8, USUAL.check_every_s / 4, 1.0))
        for _ in range(10):
            async with it.dispatcher.lease(request(clock="simulated:x")) as held:
                held.used(Usage(8, USUAL.check_every_s, 1.0))
        counts = Counter(board for _, board in it.checks)
        assert counts == {"a": 1 + 2, "sim": 1}


async def test_who_waits_for_what_will_not_come_is_told_so():
    async with scene(listing()) as it:
        with pytest.raises(NoBoard, match="no board of that target has tag x"):
            await next_lease(it, tags=frozenset({"x"}))
        await it.dispatcher.seen([])
        waiting = asyncio.ensure_future(next_lease(it))
        await asyncio.sleep(1)
        (place,) = it.dispatcher.waiting()
        assert (place.position, place.reason) == (1, "the only board that fits, a, is offline")
        began = virtual_time.clock()
        with pytest.raises(NoBoard, match="offline"):
            await waiting
        assert USUAL.patience_s - 5 < virtual_time.clock() - began < USUAL.patience_s + 5
        # One that is back in time is served, and checked before.
        waiting = asyncio.ensure_future(next_lease(it))
        await asyncio.sleep(USUAL.patience_s / 2)
        checked = len(it.checks)
        await it.dispatcher.seen([listing()])
        assert (await waiting).board == "a"
        assert len(it.checks) == checked + 1
        # While an operator works on it, those who wait go on waiting.
        await it.dispatcher.park("a", "new fan")
        waiting = asyncio.ensure_future(next_lease(it))
        await asyncio.sleep(3 * USUAL.patience_s)
        assert "in maintenance: new fan" in it.dispatcher.waiting()[0].reason
        await it.dispatcher.put_back("a", "done")
        assert (await waiting).board == "a"


async def test_one_who_gives_up_leaves_nothing_behind():
    async def hold():
        async with it.dispatcher.lease(request()):
            await asyncio.sleep(100)

    async with scene(listing()) as it:
        async with it.dispatcher.lease(request()):
            waiting = asyncio.ensure_future(next_lease(it))
            await asyncio.sleep(1)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert it.dispatcher.waiting() == []
        for turns in range(8):  # cancelled at each point of being granted one
            waiting = asyncio.ensure_future(hold())
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            await asyncio.sleep(0.1)
            assert it.board().activity is Activity.IDLE
            assert it.book.entries()["a"].lease is None


async def test_a_parked_boards_lease_is_lost_at_once_and_a_draining_ones_not():
    async with scene(listing(), listing("b")) as it:
        async with it.dispatcher.lease(request()) as one, it.dispatcher.lease(request()) as other:
            first, second = one.lease.board, other.lease.board
            await it.dispatcher.park(first, "smoke")
            await it.dispatcher.drain(second, "new fan")
            assert one.lost.is_set()
            assert not it.book.accepts(one.lease.token)
            assert not other.lost.is_set()
            assert it.board(second).activity is Activity.DRAINING
            await asyncio.sleep(2 * USUAL.lease_s)
            assert it.book.accepts(other.lease.token)
        for id, reason in ((first, "smoke"), (second, "new fan")):
            board = it.board(id)
            assert (board.health, board.reason) == (Health.MAINTENANCE, reason)
            assert not board.draining


async def test_leases_are_renewed_and_one_that_cannot_be_is_lost_before_another_gets_it():
    async with scene(listing()) as it, it.dispatcher.lease(request()) as held:
        await asyncio.sleep(5 * USUAL.lease_s)
        assert not held.lost.is_set()
        began = virtual_time.clock()

        def broken(leases):
            raise OSError("the database is gone")

        it.book.renew = broken
        await held.lost.wait()
        assert virtual_time.clock() - began < USUAL.lease_s
        assert virtual_time.clock() - began > USUAL.renew_s


async def test_two_coordinators_share_boards_and_a_dead_ones_lease_is_free_in_time():
    book = MemoryBook(virtual_time.clock)
    async with scene(listing(), book=book, holder="one") as one:
        await next_lease(one)
        # One that died while it measured: it neither renews nor releases.
        dead = book.acquire("a", "dead", Purpose.TRIALS, 3)
        assert dead is not None
        began = virtual_time.clock()
        waiting = asyncio.ensure_future(next_lease(one))
        await asyncio.sleep(3)
        assert one.board().job == 3
        assert one.dispatcher.waiting()[0].reason == "board a is measuring for job 3"
        lease = await waiting
        assert virtual_time.clock() - began < 30
        assert lease.token > dead.token
        assert not book.release(dead, Usage(8))
        assert not book.accepts(dead.token)

        async with scene(listing(), book=book, holder="two") as two:
            done = [next_lease(which) for which in (one, two) * 5]
            assert len({lease.token for lease in await asyncio.gather(*done)}) == 10
            # What an operator does at one is seen by the other.
            await two.dispatcher.park("a", "smoke")
            await one.dispatcher.seen([listing()])
            assert one.board().health is Health.MAINTENANCE


async def test_who_watches_sees_each_change_once():
    async with scene(listing()) as it:
        await asyncio.sleep(3)
        seen = []
        it.dispatcher.on_change = lambda board: seen.append((board.activity, board.health))
        async with it.dispatcher.lease(request()) as held:
            await asyncio.sleep(1)
            held.fault("cut")
        await asyncio.sleep(5)
        assert seen == [
            ("measuring", "good"),
            ("measuring", "unknown"),
            ("idle", "unknown"),
            ("leased", "unknown"),
            ("leased", "good"),
            ("idle", "good"),
        ]
        await it.dispatcher.seen([])
        await it.dispatcher.seen([listing()])  # is never seen as good before its check
        assert seen[6:8] == [("offline", "good"), ("offline", "unknown")]


async def test_a_good_board_is_checked_when_it_comes_into_service():
    book = MemoryBook(virtual_time.clock)
    async with scene(listing(), book=book) as it:
        await next_lease(it)
    # The book says that it is good, but who knows what happened since; nor does a simulated one know.
    boards = [listing(), replace(listing("sim"), clock="simulated:x")]
    book.enlist(boards)
    for board in boards:
        book.change(board.id, lambda standing: replace(standing, health=Health.GOOD), "good_check")
    async with scene(*boards, book=book) as again:
        again.problem["a"] = "wrong result"
        assert again.board().health is Health.GOOD
        assert (await next_lease(again)).board == "sim"
        assert {board for _, board in again.checks} == {"a", "sim"}
        assert again.board().health is Health.UNKNOWN
        again.problem.clear()
        assert (await next_lease(again, clock="wall")).board == "a"
        assert Counter(board for _, board in again.checks) == {"a": 2, "sim": 1}


async def test_after_closing_nobody_waits_and_no_lease_stays():
    async with scene(listing(), listing("b")) as it:

        async def hold():
            async with it.dispatcher.lease(request()) as held:
                await held.lost.wait()
            await next_lease(it)  # what was lost is tried again

        holders = [asyncio.ensure_future(hold()) for _ in range(3)]
        await asyncio.sleep(3)
    ends = await asyncio.wait_for(asyncio.gather(*holders, return_exceptions=True), 10)
    assert [type(end) for end in ends] == [NoBoard] * 3
    assert all("stopping" in str(end) for end in ends)
    assert not any(entry.lease for entry in it.book.entries().values())
    assert {how for how, _ in it.book.ended.values()} == {"released"}


async def test_what_was_measured_under_a_lost_lease_does_not_count():
    async with scene(listing()) as it:
        async with it.dispatcher.lease(request()) as held:
            held.used(Usage(8, 2.0, 1.0))
            it.book.revoke("a", "another operator")
        assert [how for how, _ in it.book.ended.values()] == ["released", "revoked"]


async def test_requests_of_one_number_get_each_its_own_board():
    other = Listing("other", CATALOGUE["power10"], "wall", 1)
    async with scene(listing(), other) as it:
        wants = [request(), request(other.target)]
        async with AsyncExitStack() as stack:
            both = [it.dispatcher.lease(replace(want, id=-1)) for want in wants]
            held = await asyncio.gather(*map(stack.enter_async_context, both))
            assert [each.lease.board for each in held] == ["a", "other"]


async def test_a_check_that_cannot_be_kept_is_not_repeated_without_pause():
    async with scene(listing()) as it:

        def broken(board, check):
            raise OSError("the database is gone")

        it.book.checked, kept = broken, it.book.checked
        await asyncio.sleep(10)
        assert 2 <= len(it.checks) <= 5
        it.book.checked = kept
        assert (await next_lease(it)).board == "a"
