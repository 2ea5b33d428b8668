"""The dispatcher: leases boards to those who wait for one, and keeps the boards healthy."""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import insort
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from worker.fleet.book import LEASE_S, RENEW_S, Book, Check, Entry, Lease, Listing, Purpose
from worker.fleet.checks import CHECK_LIMIT_S, due, failed, passed
from worker.fleet.matching import Place, Request, View, fits, match, places
from worker.fleet.seat import Held, Seat
from worker.fleet.states import Activity, Health, Standing
from worker.fleet.status import BoardStatus

TICK_S = 1.0
PATIENCE_S = 60.0
"""How long a request waits while no board that fits can be expected to serve it."""
ENLIST_S = 30.0
"""How often the book is told of boards of which nothing has changed."""
MOST_GONE = 3
"""In how many checks in a row a board may go away before that counts as failing them."""
BOOK_THREADS = 4
_STOPPING = "the service is stopping"

T = TypeVar("T")
log = logging.getLogger(__name__)


class NoBoard(RuntimeError):
    """No board will serve the request; the message says why."""


@dataclass(eq=False)
class _Waiter:
    request: Request
    granted: asyncio.Future[Held]
    hopeless_since: float | None = None
    order: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.order = self.request.order


class Dispatcher:
    """Gives boards to requests, by ``matching`` and under leases of the ``book``; one a coordinator.

    ``check`` runs the reference kernel on a board and judges it by the board's page. ``holder`` names this
    coordinator in the book. With ``threaded`` false the book is called in the loop itself, which suits one
    that never blocks. ``on_change`` is called with each board that does something else than before or is in
    another health.
    """

    def __init__(
        self,
        book: Book,
        check: Callable[[str, Entry], Awaitable[Check]],
        holder: str,
        *,
        threaded: bool = True,
    ) -> None:
        self._book, self._run_check, self._holder = book, check, holder
        self._threads = ThreadPoolExecutor(BOOK_THREADS, "book") if threaded else None
        self.on_change: Callable[[BoardStatus], None] = lambda board: None
        self._seats: dict[str, Seat] = {}
        self._queue: list[_Waiter] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        """What takes and gives back leases: short, and never cancelled."""
        self._background: set[asyncio.Task[Any]] = set()
        self._seeing = asyncio.Lock()
        self._enlisted: tuple[float, list[Listing]] = (0.0, [])
        self._woken = self._closed = False

    async def start(self) -> None:
        """Begin to renew leases, check boards and lose patience."""
        self._spawn(self._every(TICK_S, self._tick), self._background)
        self._spawn(self._every(RENEW_S, self._renew), self._background)

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
        for seat in self._seats.values():
            if seat.held is not None:
                seat.held.lost.set()
                await self._finish(seat.held)
        if self._threads is not None:  # after this nobody uses the book any more
            await asyncio.to_thread(self._threads.shutdown)

    def boards(self) -> list[BoardStatus]:
        """All boards seen so far."""
        return [seat.status() for seat in self._seats.values()]

    def waiting(self) -> list[Place]:
        """All requests that wait, in the order in which they will be served, and why."""
        return places([waiter.request for waiter in self._queue], self._views())

    def fitting(self, request: Request) -> list[View]:
        """The boards that could ever serve a request."""
        return [view for view in self._views() if fits(request, view)]

    async def seen(self, listings: Sequence[Listing]) -> None:
        """Take in which boards there are now; those not listed are not there."""
        async with self._seeing:
            now = asyncio.get_running_loop().time()
            told, before = self._enlisted
            if list(listings) != before or now - told > ENLIST_S:
                await self._ask(self._book.enlist, listings)
                self._enlisted = (now, list(listings))
            known = {listing.id: listing for listing in listings}
            for id in known.keys() - self._seats.keys():
                self._seats[id] = Seat(known[id], lambda status: self.on_change(status))
            for id, seat in self._seats.items():
                listing = known.get(id) or _gone(seat.listing)
                came_back = listing.alive and not seat.listing.alive
                if listing != seat.listing:
                    seat.describe(listing)
                if listing.alive:
                    seat.last_seen = time.time()
                if came_back:
                    await self._change(id, Standing.came_back, "came_back")
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
        if (seat := self._seats.get(board)) is None or not seat.taken:
            await self._change(board, Standing.drained, "drained")

    async def park(self, board: str, reason: str) -> None:
        """Take the board out of service at once: what runs there is thrown away and done elsewhere."""
        await self._change(board, lambda standing: standing.park(reason), "park")
        await self._revoke(board, reason)

    async def retire(self, board: str, reason: str) -> None:
        """Take the board out of service for good."""
        await self._change(board, lambda standing: standing.retire(reason), "retire")
        await self._revoke(board, reason)

    async def put_back(self, board: str, reason: str) -> None:
        """Bring the board back into service, if it passes its health check."""
        await self._change(board, lambda standing: standing.put_back(reason), "return")
        if seat := self._seats.get(board):
            seat.check_at = 0.0
            self._check_if_due(seat)

    async def _wait(self, request: Request) -> Held:
        if self._closed:
            raise NoBoard(_STOPPING)
        if not any(fits(request, view) for view in self._views()):
            raise NoBoard(places([request], self._views())[0].reason)
        waiter = _Waiter(request, asyncio.get_running_loop().create_future())
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
        for request, board in match([waiter.request for waiter in self._queue], self._views()):
            waiter, seat = waiting[id(request)], self._seats[board]
            self._queue.remove(waiter)
            seat.pending = True
            seat.changed()
            self._spawn(self._grant(waiter, seat))

    async def _grant(self, waiter: _Waiter, seat: Seat) -> None:
        held = await self._acquire(seat, Purpose.TRIALS, waiter.request.job)
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

    async def _acquire(self, seat: Seat, purpose: Purpose, job: int | None) -> Held | None:
        """Lease a board that is marked as pending; None when the book refuses."""
        asked = asyncio.get_running_loop().time()
        lease: Lease | None = None
        seat.version += 1
        try:
            lease = await self._ask(self._book.acquire, seat.id, self._holder, purpose, job)
        except Exception:
            log.exception("board %s cannot be leased", seat.id)
        seat.version += 1
        seat.pending, seat.refused = False, lease is None
        if lease is not None:
            seat.held = Held(lease, asked)
        seat.changed()
        return seat.held

    async def _finish(self, held: Held) -> None:
        """End a lease, once; the board's health first, so that nobody gets it in between."""
        seat = self._seats[held.lease.board]
        if seat.held is not held or held.ending:
            return
        held.ending, released = True, False
        try:
            if held.why_faulty:
                await self._change(seat.id, lambda standing: standing.fault(held.why_faulty), "fault")
            else:
                if held.usage.trials and seat.entry.standing.failures:
                    await self._change(seat.id, Standing.served, "served")
                if held.why_doubtful:
                    await self._change(seat.id, lambda standing: standing.doubt(held.why_doubtful), "doubt")
            released = await self._ask(self._book.release, held.lease, held.usage)
            if seat.entry.standing.draining:
                await self._change(seat.id, Standing.drained, "drained")
        except Exception:
            log.exception("the lease of board %s could not be ended; it will expire", seat.id)
        finally:
            seat.version += 1
            seat.ended(held.usage, counts=released)
            self._check_if_due(seat)
            self._wake()

    async def _change(self, board: str, to: Callable[[Standing], Standing], kind: str) -> None:
        seat = self._seats.get(board)
        if seat is not None:
            seat.version += 1
        standing = await self._ask(self._book.change, board, to, kind)
        if seat is not None:
            seat.version += 1
            seat.stand(standing)
            self._wake()

    async def _revoke(self, board: str, reason: str) -> None:
        await self._ask(self._book.revoke, board, reason)
        if (seat := self._seats.get(board)) and seat.held is not None:
            seat.held.lost.set()

    async def _sync(self) -> None:
        """Take in what the book says: other coordinators and their operators write there too."""
        versions = {id: seat.version for id, seat in self._seats.items()}
        entries = await self._ask(self._book.entries)
        for id, version in versions.items():
            seat = self._seats[id]
            if seat.version != version or id not in entries or seat.pending or seat.ending:
                continue
            seat.entry, seat.refused = entries[id], False
            if seat.held is not None and seat.entry.lease != seat.held.lease:
                seat.held.lost.set()
            if seat.entry.standing.draining and not seat.taken:
                await self._change(id, Standing.drained, "drained")
            seat.changed()
            self._check_if_due(seat)
        self._wake()

    def _check_if_due(self, seat: Seat) -> None:
        if not self._closed and due(seat, asyncio.get_running_loop().time()):
            seat.pending = True
            seat.changed()
            self._spawn(self._check(seat), self._background)

    async def _check(self, seat: Seat) -> None:
        """Run the reference kernel under a lease of its own, and let the board's health follow from it."""
        held = await self._wholly(self._acquire(seat, Purpose.CHECK, None))
        if held is None:
            return
        try:
            try:
                async with asyncio.timeout(CHECK_LIMIT_S):
                    check = await self._run_check(seat.id, seat.entry)
            except Exception as error:
                check = Check(None, f"the health check failed: {type(error).__name__}: {error}")
            if held.lost.is_set():
                return
            await self._ask(self._book.checked, seat.id, check)
            if check.problem:
                failed(seat, asyncio.get_running_loop().time())
            if check.problem and (seat.listing.alive or seat.failed_checks > MOST_GONE):
                await self._change(
                    seat.id, lambda standing: standing.check_failed(check.problem), "bad_check"
                )
            elif check.problem:  # It has gone meanwhile, and is checked when it comes back.
                await self._change(seat.id, lambda standing: standing.doubt(check.problem), "doubt")
            else:
                passed(seat)
                await self._change(seat.id, Standing.check_passed, "good_check")
        except Exception:
            log.exception("the health check of board %s could not be kept", seat.id)
            failed(seat, asyncio.get_running_loop().time())
        finally:
            await self._wholly(self._finish(held))

    async def _tick(self) -> None:
        if any(seat.refused or (seat.held is None and seat.entry.lease) for seat in self._seats.values()):
            await self._sync()  # Others have boards: look whether they are free again.
        for seat in self._seats.values():
            self._check_if_due(seat)
        now = asyncio.get_running_loop().time()
        hopes: dict[object, bool] = {}
        for waiter in list(self._queue):
            wants = waiter.request.wants
            if wants not in hopes:
                hopes[wants] = any(map(_may_serve, self.fitting(waiter.request)))
            if hopes[wants]:
                waiter.hopeless_since = None
            elif waiter.hopeless_since is None:
                waiter.hopeless_since = now
            elif now - waiter.hopeless_since > PATIENCE_S and not waiter.granted.done():
                why = places([waiter.request], self._views())[0].reason
                waiter.granted.set_exception(NoBoard(f"{why}; nothing changed for {PATIENCE_S:g} s"))

    async def _renew(self) -> None:
        """Extend our leases; what cannot be extended in time is lost."""
        now = asyncio.get_running_loop().time()
        ours = [seat.held for seat in self._seats.values() if seat.held is not None]
        if not ours:
            return
        try:
            kept = await self._ask(self._book.renew, [held.lease for held in ours])
        except Exception:
            log.exception("leases could not be renewed")
            kept = {held.lease.token for held in ours if now - held.renewed < LEASE_S - RENEW_S}
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

    def _views(self) -> list[View]:
        return [seat.view for seat in self._seats.values()]

    def _spawn(
        self, work: Coroutine[Any, Any, T], among: set[asyncio.Task[Any]] | None = None
    ) -> asyncio.Task[T]:
        tasks = self._tasks if among is None else among
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task


def _may_serve(board: View) -> bool:
    """Whether it is worth waiting for a board: an operator who works on it means to bring it back."""
    if board.health is Health.MAINTENANCE:
        return True
    return board.activity is not Activity.OFFLINE and board.health in (Health.GOOD, Health.UNKNOWN)


def _gone(listing: Listing) -> Listing:
    return replace(listing, alive=False)
