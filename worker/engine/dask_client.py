"""The Dask workers that build and measure for an engine, and what comes back from them."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import KilledWorker

from worker.engine.dask_worker import describe, stop
from worker.engine.outcome_events import read
from worker.engine.scheduler_link import SchedulerGone, SchedulerLink, WorkerGone
from worker.fleet.book import Listing
from worker.fleet.times import USUAL, FleetTimes
from worker.outcome import OnOutcome

BUILDERLESS_S = 15.0
"""After so long without a worker that builds it is said: one that is busy may answer late."""


class NotStarted(WorkerGone):
    """It was gone before the task began."""


class DaskClient:
    """All workers of the scheduler at ``address``, also of the next one there.

    ``on_change`` is called when a worker came or went, and ``on_lost`` when the scheduler did.
    """

    def __init__(
        self,
        address: str,
        on_change: Callable[[], None],
        on_lost: Callable[[], Awaitable[None]],
        times: FleetTimes = USUAL,
    ) -> None:
        self._on_change, self._on_lost, self._times = on_change, on_lost, times
        self.topic = f"outcomes-{uuid.uuid4().hex}"
        topics = {self.topic: self._heard, "all": self._noticed}
        self._link = SchedulerLink(address, topics, self._forget, self._joined)
        self._streams: dict[str, OnOutcome] = {}
        self._addresses: dict[str, str] = {}
        self._gone: dict[str, asyncio.Event] = {}
        self._left: set[str] = set()
        """Who went away since all were asked last."""
        self._asking = asyncio.Lock()
        self._builder_seen = time.monotonic()
        self._no_builder = asyncio.Event()

    async def start(self) -> None:
        """Join the scheduler; raises OSError when none answers."""
        await self._link.start()

    async def close(self) -> None:
        """Hear no more."""
        await self._link.close()

    @property
    def away(self) -> str:
        """Says that the scheduler is away, or whoever builds; empty while they are there."""
        if away := self._link.away:
            return away
        alone_s = time.monotonic() - self._builder_seen
        return "no worker that builds answers" if alone_s > BUILDERLESS_S else ""

    async def back(self) -> None:
        """Wait until the scheduler is there."""
        await self._link.back()

    async def listings(self) -> list[Listing]:
        """The boards of all workers that answer; raises SchedulerGone."""
        async with self._asking:
            self._left.clear()
            found: dict[str, Listing] = {}
            try:
                answers = await self._describe()
            except Exception as error:
                if away := self._link.gone(error):
                    raise SchedulerGone(away) from None
                raise
            self._note_builders(any(listing is None for listing in answers.values()))
            for address, listing in answers.items():
                if address in self._left:
                    continue
                self._gone.setdefault(address, asyncio.Event())
                # A worker that was started anew may overlap with the one before.
                if listing is not None and (listing.id not in found or listing.alive):
                    found[listing.id] = listing
                    self._addresses[listing.id] = address
            return list(found.values())

    async def build(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        token: str,
        priority: float,
        stops: Sequence[asyncio.Event],
    ) -> Any:
        """The result of a task on any build worker; see ``run_on``.

        Raises KilledWorker, SchedulerGone, and WorkerGone when there has been no build worker for
        ``builder_s``.
        """
        future = self._link.client.submit(
            function, *arguments, resources={"build": 1}, priority=priority, pure=False, retries=0
        )
        return await self._result(future, token, stops, self._no_builder, "the last build worker")

    async def run_on(
        self,
        board: str,
        function: Callable[..., Any],
        *arguments: Any,
        token: str,
        stops: Sequence[asyncio.Event] = (),
    ) -> Any:
        """The result of a task on a board's worker; raises WorkerGone when that or the scheduler goes away.

        Once one of ``stops`` is set, the workers are told to give up ``token``.
        """
        name, client = f"the measure worker of board {board}", self._link.client
        address = self._addresses.get(board)
        if address is None:
            raise NotStarted(f"{name} went away")
        future = client.submit(
            function,
            *arguments,
            workers=[address],  # not the next one of this board: who measured what is settled first
            resources={f"board:{board}": 1},
            pure=False,
            retries=0,
        )
        try:
            return await self._result(future, token, stops, self._gone[address], name)
        except KilledWorker as error:
            raise WorkerGone(f"{name} died: {error}") from None

    @contextmanager
    def stream(self, token: str, on_outcome: OnOutcome) -> Iterator[None]:
        """Have each outcome that is measured under ``token`` at once."""
        self._streams[token] = on_outcome
        try:
            yield
        finally:
            del self._streams[token]

    async def _result(
        self, future: Any, token: str, stops: Sequence[asyncio.Event], gone: asyncio.Event, name: str
    ) -> Any:
        work, gone_too = asyncio.ensure_future(_await(future)), asyncio.ensure_future(gone.wait())
        watches = [asyncio.ensure_future(event.wait()) for event in stops]
        try:
            await asyncio.wait([work, gone_too, *watches], return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not gone_too.done():
                await self._stop(token)
                await asyncio.wait(
                    [work, gone_too], timeout=self._times.stop_s, return_when=asyncio.FIRST_COMPLETED
                )
        except asyncio.CancelledError:
            await self._stop(token)
            raise
        finally:
            for task in (work, gone_too, *watches):
                if not task.done():
                    task.cancel()
            if not future.done():
                with contextlib.suppress(Exception):
                    await future.client.cancel([future], force=True)
        ended = work.done() and not work.cancelled()
        error = work.exception() if ended else None
        if ended and error is None:
            return work.result()
        if away := self._link.gone(error):
            raise SchedulerGone(away)
        if not ended:
            raise WorkerGone(f"{name} was lost")
        return work.result()

    async def _forget(self) -> None:
        """The workers will come back as others."""
        self._addresses.clear()
        for gone in self._gone.values():
            gone.set()
        self._gone.clear()
        await self._on_lost()

    def _joined(self) -> None:
        self._note_builders(True)  # they have as long to join as they had to go
        self._on_change()

    def _note_builders(self, some: bool) -> None:
        now = time.monotonic()
        if some:
            self._builder_seen = now
            self._no_builder.clear()
        elif now - self._builder_seen > self._times.builder_s:
            self._no_builder.set()

    async def _stop(self, token: str) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(self._times.answer_s):
                await self._link.client.run(stop, token, on_error="ignore")

    async def _describe(self) -> dict[str, Listing | None]:
        """What each worker says of its board."""

        client = self._link.client

        async def ask(workers: list[str] | None) -> dict[str, Listing | None]:
            async with asyncio.timeout(self._times.answer_s):
                answers: dict[str, Listing | None] = await client.run(
                    describe, workers=workers, on_error="ignore"
                )
            return answers

        with contextlib.suppress(TimeoutError):
            return await ask(None)
        # One of them hangs; hear the others.
        some = [ask([address]) for address in client.scheduler_info(n_workers=-1)["workers"]]
        answers = await asyncio.gather(*some, return_exceptions=True)
        return {at: it for answer in answers if isinstance(answer, dict) for at, it in answer.items()}

    def _heard(self, event: tuple[float, dict[str, Any]]) -> None:
        token, index, outcome = read(event[1])
        if token in self._streams:
            self._streams[token](index, outcome)

    def _noticed(self, event: tuple[float, Any]) -> None:
        message = event[1]
        if not isinstance(message, dict) or message.get("action") not in ("add-worker", "remove-worker"):
            return
        if message["action"] == "remove-worker":
            left = message["worker"]
            self._left.add(left)
            if left in self._gone:
                self._gone.pop(left).set()
            self._addresses = {board: at for board, at in self._addresses.items() if at != left}
        self._on_change()


async def _await(future: Any) -> Any:
    return await future
