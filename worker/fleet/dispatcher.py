"""The dispatcher: leases boards to those who wait for one, and keeps the boards healthy."""

from __future__ import annotations

import asyncio
import logging
from bisect import insort
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from worker.demand import Demand
from worker.fleet.book import DISAGREES, LIED, RETURNED, Book, Check, Entry, Lease, Listing, Purpose
from worker.fleet.checks import due, failed, passed
from worker.fleet.known_board import Held, KnownBoard
from worker.fleet.matching import Place, Request, fits, match, places
from worker.fleet.repair import Repair, Repairs
from worker.fleet.repair import run as run_repair
from worker.fleet.states import Standing
from worker.fleet.status import BoardStatus
from worker.fleet.times import USUAL, FleetTimes
from worker.fleet.waiter import Waiter

MOST_GONE = 3
"""In how many checks in a row a board may go away before that counts as failing them."""
BOOK_THREADS = 4
_LOOK_S = 0.1
_STOPPING = "the service is stopping"

T = TypeVar("T")
log = logging.getLogger(__name__)


class NoBoard(RuntimeError):
    """No board will serve the request; the message says why."""


class CannotCheck(RuntimeError):
    """Nobody can be asked how a board is, which is no fault of the board; the message says why."""


class Dispatcher:
    """Gives boards to requests, by ``matching`` and under leases of the ``book``; one a coordinator.

    ``check`` runs the reference kernel on a board and judges it by what the book says of it, or raises
    CannotCheck. ``holder`` names this coordinator in the book. With ``threaded`` false the book is called in
    the loop itself, which suits one that never blocks. ``on_change`` is called with each board that does
    something else than before or is in another health. ``repairs`` are run before a check of a board that
    failed, and for one that was away for long.
    """

    def __init__(
        self,
        book: Book,
        check: Callable[[str, Entry], Awaitable[Check]],
        holder: str,
        *,
        threaded: bool = True,
        times: FleetTimes = USUAL,
        repairs: Mapping[str, Repair] | None = None,
    ) -> None:
        self._times = times
        self._repairs = Repairs(repairs or {}, times.repair_absent_s)
        self._book, self._run_check, self._holder = book, check, holder
        self._threads = ThreadPoolExecutor(BOOK_THREADS, "book") if threaded else None
        self.on_change: Callable[[BoardStatus], None] = lambda board: None
        self._known: dict[str, KnownBoard] = {}
        self._queue: list[Waiter] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        """What takes and gives back leases: short, and never cancelled."""
        self._background: set[asyncio.Task[Any]] = set()
        self._seeing = asyncio.Lock()
        self._enlisted: tuple[float, list[Listing]] = (0.0, [])
        self._woken = self._closed = False

    async def start(self) -> None:
        """Begin to renew leases, check boards and lose patience."""
        self._spawn(self._every(self._times.tick_s, self._tick), self._background)
        self._spawn(self._every(self._times.renew_s, self._renew), self._background)

    async def close(self) -> None:
        """Give back all leases and stop; whoever still waits gets NoBoard."""
        self._closed = True
        for waiter in self._queue:
            if not waiter.granted.done():
                waiter.granted.set_exception(NoBoard(_STOPPING))
        for task in self._background:
            task.cancel()
        while tasks := [*self._background, *self._tasks]:
            await asyncio.gather(*tasks, return_exceptions=True)
        for known in self._known.values():
            if known.held is not None:
                known.held.lost.set()
                await self._finish(known.held)
        if self._threads is not None:  # after this nobody uses the book any more
            await asyncio.to_thread(self._threads.shutdown)

    def boards(self) -> list[BoardStatus]:
        """All boards seen so far."""
        return [known.status for known in self._known.values()]

    def waiting(self) -> list[Place]:
        """All requests that wait, in the order in which they will be served, and why."""
        return places([waiter.request for waiter in self._queue], self.boards())

    def fitting(self, demand: Demand) -> list[BoardStatus]:
        """The boards that could ever serve a demand."""
        return [board for board in self.boards() if fits(demand, board)]

    async def seen(self, listings: Sequence[Listing]) -> None:
        """Take in which boards there are now; those not listed are not there."""
        async with self._seeing:
            now = asyncio.get_running_loop().time()
            told, before = self._enlisted
            if list(listings) != before or now - told > self._times.enlist_s:
                await self._ask(self._book.enlist, listings)
                self._enlisted = (now, list(listings))
            listed = {listing.id: listing for listing in listings}
            for id in listed.keys() - self._known.keys():
                self._known[id] = KnownBoard(listed[id], lambda status: self.on_change(status))
            for id, known in self._known.items():
                listing = listed.get(id) or replace(known.listing, alive=False)
                if listing.alive and not known.listing.alive:
                    # Before it is there for anyone: nobody gets a board that is still to be checked.
                    await self._change(id, Standing.came_back, "came_back")
                if listing != known.listing:
                    known.describe(listing)
            await self._sync()

    @asynccontextmanager
    async def lease(self, request: Request) -> AsyncIterator[Held]:
        """Wait for a board and hold it; raises NoBoard, at once when no board fits at all."""
        held = await self._wait(request)
        try:
            yield held
        finally:
            await self._wholly(self._finish(held))

    async def drain(self, board: str, reason: str) -> None:
        """Let the board's present lease end, then take it out of service."""
        await self._change(board, lambda standing: standing.drain(reason), "drain")
        if (known := self._known.get(board)) is None or not known.taken:
            await self._change(board, Standing.drained, "drained")

    async def park(self, board: str, reason: str) -> None:
        """Take the board out of service at once: what runs there is thrown away and done elsewhere."""
        await self._change(board, lambda standing: standing.park(reason), "park")
        await self._revoke(board, reason)

    async def disbelieve(self, board: str, reason: str) -> None:
        """Park a board that said something else than others of its target; what it has recorded is marked."""
        await self._lied(board, reason, DISAGREES)
        await self._revoke(board, reason)

    async def retire(self, board: str, reason: str) -> None:
        """Take the board out of service for good."""
        await self._change(board, lambda standing: standing.retire(reason), "retire")
        await self._revoke(board, reason)

    async def leave(self, board: str) -> None:
        """Give a board to nobody any more, and wait until nobody has it."""
        if known := self._known.get(board):
            known.leaving = True
            known.changed()
            while known.pending or known.held is not None:
                await asyncio.sleep(_LOOK_S)

    async def forget(self, board: str) -> None:
        """Know nothing more of a board that is gone."""
        async with self._seeing:
            self._known.pop(board, None)

    def repair_by(self, repairs: Mapping[str, Repair]) -> None:
        """Take these repairs of boards in the place of the former."""
        self._repairs = Repairs(repairs, self._times.repair_absent_s)

    async def put_back(self, board: str, reason: str) -> None:
        """Bring the board back into service, if it passes its health check."""
        await self._change(board, lambda standing: standing.put_back(reason), RETURNED)
        if known := self._known.get(board):
            known.check_at = 0.0
            self._check_if_due(known)

    async def _wait(self, request: Request) -> Held:
        if self._closed:
            raise NoBoard(_STOPPING)
        if not self.fitting(request.demand):
            raise NoBoard(places([request], self.boards())[0].reason)
        waiter = Waiter(request, asyncio.get_running_loop().create_future())
        insort(self._queue, waiter, key=lambda waiter: waiter.order)
        self._wake()
        try:
            return await waiter.granted
        except asyncio.CancelledError:
            # It may have been granted in the moment in which it was cancelled.
            if not waiter.granted.cancelled() and waiter.granted.exception() is None:
                self._spawn(self._finish(waiter.granted.result()))
            raise
        finally:
            if waiter in self._queue:
                self._queue.remove(waiter)

    def _wake(self) -> None:
        """Match soon, once for everything that happens now."""
        if not self._woken and not self._closed:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._match)

    def _match(self) -> None:
        self._woken = False
        if not self._queue:
            return
        waiting = {id(waiter.request): waiter for waiter in self._queue}
        for request, board in match([waiter.request for waiter in self._queue], self.boards()):
            waiter, known = waiting[id(request)], self._known[board]
            self._queue.remove(waiter)
            known.pending = True
            known.changed()
            self._spawn(self._grant(waiter, known))

    async def _grant(self, waiter: Waiter, known: KnownBoard) -> None:
        held = await self._acquire(known, Purpose.TRIALS, waiter.request.demand.job)
        if waiter.granted.done():
            if held is not None:
                await self._finish(held)
        elif held is not None:
            waiter.granted.set_result(held)
        elif self._closed:
            waiter.granted.set_exception(NoBoard(_STOPPING))
        else:
            insort(self._queue, waiter, key=lambda waiter: waiter.order)
            await self._sync()

    async def _acquire(self, known: KnownBoard, purpose: Purpose, job: int | None) -> Held | None:
        """Lease a board that is marked as pending; None when the book refuses."""
        asked = asyncio.get_running_loop().time()
        lease: Lease | None = None
        known.version += 1
        try:
            lease = await self._ask(self._book.acquire, known.id, self._holder, purpose, job)
        except Exception:
            log.exception("board %s cannot be leased", known.id)
        known.version += 1
        known.pending, known.refused = False, lease is None
        if lease is not None:
            known.held = Held(lease, asked)
        known.changed()
        return known.held

    async def _finish(self, held: Held) -> None:
        """End a lease, once; the board's health first, so that nobody gets it in between."""
        known = self._known[held.lease.board]
        if known.held is not held or held.ending:
            return
        held.ending = True
        try:
            if held.why_lying:
                await self._lied(known.id, held.why_lying, LIED)
            elif held.why_faulty:
                await self._change(known.id, lambda standing: standing.fault(held.why_faulty), "fault")
            else:
                if held.usage.trials and known.entry.standing.failures:
                    await self._change(known.id, Standing.served, "served")
                if held.why_doubtful:
                    await self._change(known.id, lambda standing: standing.doubt(held.why_doubtful), "doubt")
            await self._ask(self._book.release, held.lease, held.usage)
            if known.entry.standing.draining:
                await self._change(known.id, Standing.drained, "drained")
        except Exception:
            log.exception("the lease of board %s could not be ended; it will expire", known.id)
        finally:
            known.version += 1
            known.ended(held.usage.busy_s)
            self._check_if_due(known)
            self._wake()

    async def _lied(self, board: str, why: str, kind: str) -> None:
        """Have the book know of a lie, however long it is away: the board would go on, and be believed."""
        while True:
            try:
                return await self._change(board, lambda standing: standing.lied(why), kind)
            except Exception:
                if self._closed:
                    raise
                log.exception("that board %s lied could not be kept", board)
            await asyncio.sleep(self._times.renew_s)

    async def _change(self, board: str, to: Callable[[Standing], Standing], kind: str) -> None:
        known = self._known.get(board)
        if known is not None:
            known.version += 1
        standing = await self._ask(self._book.change, board, to, kind)
        if known is not None:
            known.version += 1
            known.stand(standing)
            self._wake()

    async def _revoke(self, board: str, reason: str) -> None:
        await self._ask(self._book.revoke, board, reason)
        if (known := self._known.get(board)) and known.held is not None:
            known.held.lost.set()

    async def _sync(self) -> None:
        """Take in what the book says: other coordinators and their operators write there too."""
        versions = {id: known.version for id, known in self._known.items()}
        entries = await self._ask(self._book.entries)
        for id, version in versions.items():
            known = self._known.get(id)
            if known is None or known.version != version or id not in entries:
                continue
            if known.pending or known.ending:
                continue
            known.entry, known.refused = entries[id], False
            if known.held is not None and known.entry.lease != known.held.lease:
                known.held.lost.set()
            if known.entry.standing.draining and not known.taken:
                await self._change(id, Standing.drained, "drained")
            known.changed()
            self._check_if_due(known)
        self._wake()

    def _check_if_due(self, known: KnownBoard) -> None:
        now = asyncio.get_running_loop().time()
        if not (self._closed or known.leaving) and due(known, now, self._times):
            known.pending = True
            known.changed()
            self._spawn(self._check(known), self._background)

    async def _check(self, known: KnownBoard) -> None:
        """Run the reference kernel under a lease of its own, and let the board's health follow from it."""
        held = await self._wholly(self._acquire(known, Purpose.CHECK, None))
        if held is None:
            return
        try:
            if repair := self._repairs.after_failure(known):
                await self._repair(known, repair)
            try:
                async with asyncio.timeout(self._times.check_limit_s):
                    check = await self._run_check(known.id, known.entry)
            except CannotCheck:
                return
            except Exception as error:
                check = Check(None, f"the health check failed: {type(error).__name__}: {error}")
            if held.lost.is_set():
                return
            await self._ask(self._book.checked, known.id, check)
            if check.problem:
                failed(known, asyncio.get_running_loop().time(), self._times)
            if check.problem and (known.listing.alive or known.failed_checks > MOST_GONE):
                await self._change(
                    known.id, lambda standing: standing.check_failed(check.problem), "bad_check"
                )
            elif check.problem:  # It has gone meanwhile, and is checked when it comes back.
                await self._change(known.id, lambda standing: standing.doubt(check.problem), "doubt")
            else:
                passed(known)
                await self._change(known.id, Standing.check_passed, "good_check")
        except Exception:
            log.exception("the health check of board %s could not be kept", known.id)
            failed(known, asyncio.get_running_loop().time(), self._times)
        finally:
            await self._wholly(self._finish(held))

    async def _repair(self, known: KnownBoard, repair: Repair) -> None:
        """Run the operator's command, and keep what came of it in the board's history."""
        said = await run_repair(repair, known.id, known.status.reason)
        await self._change(known.id, lambda standing: standing.repaired(said), "repair")

    async def _repair_absent(self, known: KnownBoard, repair: Repair) -> None:
        """Under a lease, as a check is: should the board come back, nobody has it while the command runs."""
        held = await self._wholly(self._acquire(known, Purpose.CHECK, None))
        if held is None:
            return
        try:
            await self._repair(known, repair)
        finally:
            await self._wholly(self._finish(held))

    async def _tick(self) -> None:
        if any(known.refused or (known.held is None and known.entry.lease) for known in self._known.values()):
            await self._sync()  # Others have boards: look whether they are free again.
        now = asyncio.get_running_loop().time()
        for known in [*self._known.values()]:
            if known.is_to_be_tried_again(now, self._times):
                known.bad_since, known.check_at = None, now
                await self._change(known.id, Standing.try_again, "try_again")
            self._check_if_due(known)
            free = not known.taken and not known.leaving
            if free and (repair := self._repairs.after_absence(known, now)):
                known.pending = True
                known.changed()
                self._spawn(self._repair_absent(known, repair), self._background)
        now = asyncio.get_running_loop().time()
        hopes: dict[object, bool] = {}
        for waiter in list(self._queue):
            wants = waiter.request.demand.wants
            if wants not in hopes:
                hopes[wants] = any(board.may_serve for board in self.fitting(waiter.request.demand))
            patience_s = waiter.out_of_patience(hopes[wants], now, self._times)
            if patience_s and not waiter.granted.done():
                why = places([waiter.request], self.boards())[0].reason
                waiter.granted.set_exception(NoBoard(f"{why}; nothing changed for {patience_s:g} s"))

    async def _renew(self) -> None:
        """Extend our leases; what cannot be extended in time is lost."""
        now = asyncio.get_running_loop().time()
        ours = [known.held for known in self._known.values() if known.held is not None]
        if not ours:
            return
        try:
            kept = await self._ask(self._book.renew, [held.lease for held in ours])
        except Exception:
            log.exception("leases could not be renewed")
            lasts_s = self._times.lease_s - self._times.renew_s
            kept = {held.lease.token for held in ours if now - held.renewed < lasts_s}
        else:
            for held in ours:
                held.renewed = now
        for held in ours:
            if held.lease.token not in kept:
                held.lost.set()

    async def _every(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception:
                log.exception("the dispatcher goes on")

    async def _ask(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call the book."""
        if self._threads is None:
            return call(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    async def _wholly(self, work: Coroutine[Any, Any, T]) -> T:
        """Have ``work`` done to its end, also when whoever waits for it is cancelled."""
        return await asyncio.shield(self._spawn(work))

    def _spawn(
        self, work: Coroutine[Any, Any, T], among: set[asyncio.Task[Any]] | None = None
    ) -> asyncio.Task[T]:
        tasks = self._tasks if among is None else among
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task
