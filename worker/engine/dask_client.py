"""The Dask workers that build and measure for an engine, and what comes back from them."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import KilledWorker

from worker.engine.dask_worker import describe, stop
from worker.engine.outcome_events import read
from worker.fleet.book import Listing
from worker.fleet.times import USUAL, FleetTimes
from worker.outcome import OnOutcome


class WorkerGone(RuntimeError):
    """The worker, or the scheduler, went away under a task; the message says which."""


class NotStarted(WorkerGone):
    """It was gone before the task began."""


class DaskClient:
    """All workers of one scheduler, over an asynchronous Dask ``client``.

    ``on_change`` is called when a worker came or went.
    """

    def __init__(self, client: Any, on_change: Callable[[], None], times: FleetTimes = USUAL) -> None:
        self._client, self._on_change, self._times = client, on_change, times
        self.topic = f"outcomes-{uuid.uuid4().hex}"
        self._streams: dict[str, OnOutcome] = {}
        self._addresses: dict[str, str] = {}
        self._gone: dict[str, asyncio.Event] = {}
        self._left: set[str] = set()
        """Who went away since all were asked last."""
        self._asking = asyncio.Lock()
        self._builder_seen = asyncio.get_running_loop().time()
        self._no_builder = asyncio.Event()
        client.subscribe_topic(self.topic, self._heard)
        client.subscribe_topic("all", self._noticed)

    def close(self) -> None:
        """Hear no more."""
        for topic in (self.topic, "all"):
            self._client.unsubscribe_topic(topic)

    async def listings(self) -> list[Listing]:
        """The boards of all workers that answer."""
        async with self._asking:
            self._left.clear()
            found: dict[str, Listing] = {}
            answers = await self._describe()
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

        Raises KilledWorker, and WorkerGone when there has been no build worker for ``builder_s``.
        """
        future = self._client.submit(
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
        """The result of a task on a board's worker; raises WorkerGone when that worker goes away.

        Once one of ``stops`` is set, the workers are told to give up ``token``.
        """
        name = f"the measure worker of board {board}"
        address = self._addresses.get(board)
        if address is None:
            raise NotStarted(f"{name} went away")
        future = self._client.submit(
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
                    await self._client.cancel([future], force=True)
        if not work.done() or work.cancelled():
            raise WorkerGone(f"{name} or the scheduler was lost")
        return work.result()

    def _note_builders(self, some: bool) -> None:
        now = asyncio.get_running_loop().time()
        if some:
            self._builder_seen = now
            self._no_builder.clear()
        elif now - self._builder_seen > self._times.builder_s:
            self._no_builder.set()

    async def _stop(self, token: str) -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(self._times.answer_s):
                await self._client.run(stop, token, on_error="ignore")

    async def _describe(self) -> dict[str, Listing | None]:
        """What each worker says of its board."""

        async def ask(workers: list[str] | None) -> dict[str, Listing | None]:
            async with asyncio.timeout(self._times.answer_s):
                answers: dict[str, Listing | None] = await self._client.run(
                    describe, workers=workers, on_error="ignore"
                )
            return answers

        with contextlib.suppress(TimeoutError):
            return await ask(None)
        # One of them hangs; hear the others.
        some = [ask([address]) for address in self._client.scheduler_info(n_workers=-1)["workers"]]
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
