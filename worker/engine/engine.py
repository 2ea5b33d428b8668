"""The engine: Dask spreads builds over cores and measurements over boards, here or on other machines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from worker.batch import Batch
from worker.build.build import Built
from worker.children.nursery import Nursery
from worker.demand import Demand
from worker.engine.asyncio_tasks import either, end
from worker.engine.batch_run import BatchRun, next_request
from worker.engine.cluster import Changes, Cluster, EngineError, FleetBoards, make_nursery, split_cpus
from worker.engine.dask_client import DaskClient
from worker.engine.dask_worker import beside_task, check_task, probe_task
from worker.engine.health_check import judge
from worker.engine.scheduler_link import SchedulerGone, WorkerGone
from worker.engine.witness import Witness
from worker.fleet.book import Book, Check, Entry
from worker.fleet.dispatcher import CannotCheck, Dispatcher, NoBoard
from worker.fleet.drivers.host import HOST
from worker.fleet.fleet_file import Fleet, fleet_of
from worker.fleet.matching import Request
from worker.fleet.memory_book import MemoryBook
from worker.fleet.status import BoardStatus
from worker.fleet.times import USUAL, FleetTimes
from worker.measure.cores import Cores
from worker.measure.measure import MeasureOptions
from worker.outcome import Answer, ErrorKind, Fact, Outcome
from worker.shortage import shortage

log = logging.getLogger(__name__)
PEAK_PRIORITY = 1 << 30
"""A peak is measured before any trials: jobs wait for it."""


class Engine:
    """Builds and measures candidates; an async context manager.

    Embedded by default: scheduler, build workers and ``boards``, nothing listening beyond the loopback.
    ``boards`` are a fleet, or names for ``fleet_of``, which get ``threads``. ``host`` is this machine itself,
    on its last cores; builds get the others, and so do simulated boards. Where there are no others, builds
    use the board's while it rests. ``scheduler`` (``tcp://...``) joins a shared one instead, whose workers
    were started by ``python -m worker``. Boards are leased through ``book`` (by default one in memory, so
    shared with nobody) in the name of ``holder``.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        scheduler: str | None = None,
        boards: Fleet | Sequence[str] = (HOST,),
        threads: int = 1,
        preload: Sequence[str] = (),
        env: dict[str, str] | None = None,
        book: Book | None = None,
        holder: str = "",
        times: FleetTimes = USUAL,
    ) -> None:
        self._times = times
        self._state_dir, self._address = state_dir, scheduler
        self._fleet = boards if isinstance(boards, Fleet) else fleet_of(boards, threads)
        self._preload, self._env = tuple(preload), env
        self._stack = AsyncExitStack()
        self._nursery: Nursery | None = None
        self._dask: DaskClient | None = None
        self._changed, self._asking = asyncio.Event(), asyncio.Lock()
        self.dispatcher = Dispatcher(
            book or MemoryBook(lease_s=times.lease_s),
            self._check,
            holder or uuid.uuid4().hex,
            times=times,
            repairs=self._fleet.repairs,
        )
        self._boards: FleetBoards | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._witness: Witness | None = None
        self._best: dict[tuple[str, str, int, bool, str], dict[str, float]] = {}
        self._facts: dict[tuple[object, ...], asyncio.Task[Fact]] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def nursery(self) -> Nursery:
        """Where builds run: off the board's cores."""
        assert self._nursery is not None, "not started"
        return self._nursery

    async def start(self) -> None:
        """Start everything and wait until it is ready; raises EngineError, BoardError or NurseryError."""
        try:
            cores = Cores(*split_cpus(self._fleet.host.threads if self._fleet.host else 0))
            self._nursery = make_nursery(self._preload, cores.builds, self._env)
            self._stack.callback(self._nursery.close)
            address = self._address
            if address is None:
                self._boards = boards = FleetBoards(
                    self._state_dir,
                    self._nursery,
                    self._fleet,
                    cores,
                    retry_s=self._times.retry_s,
                )
                cluster = Cluster(self._state_dir, self._nursery, boards, cores)
                address = (await self._stack.enter_async_context(cluster)).address
            await asyncio.to_thread(self._nursery.start)
            self._dask = DaskClient(address, self._changed.set, self.refresh, self._times)
            self._stack.push_async_callback(self._dask.close)
            await self._dask.start()
            await self.dispatcher.start()
            self._stack.push_async_callback(self.dispatcher.close)
            self._witness = Witness(self._dask, self.dispatcher, self._times.kin_limit)
            self._stack.push_async_callback(self._witness.close)
            await self.refresh()
            self._watcher = asyncio.create_task(self._watch())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop everything; what runs is killed."""
        if self._watcher is not None:
            await end(self._watcher)
        await self._stack.aclose()
        self._dask = None

    async def refresh(self) -> None:
        """Ask all workers which boards there are."""
        async with self._asking:
            await self._look()

    async def _look(self) -> None:
        self._changed.clear()
        try:
            listings = await self._workers.listings()
        except SchedulerGone:  # and with it whatever had joined it
            listings = []
        await self.dispatcher.seen(listings)

    async def reload(self, fleet: Fleet) -> Changes:
        """Become this fleet; boards that go or change do so once nobody has them.

        Boards of a shared cluster are the workers'. Raises EngineError or BoardError, and then nothing has
        changed.
        """
        changes = Changes()
        if self._boards is not None:
            changes = await self._boards.reload(fleet, self.dispatcher.leave, self._forget)
        self._fleet = fleet
        self.dispatcher.repair_by(fleet.repairs)
        return changes

    async def _forget(self, board: str) -> None:
        # In one go: a look that began before has the board still.
        async with self._asking:
            await self._look()
            await self.dispatcher.forget(board)

    @property
    def away(self) -> str:
        """Says that the scheduler is away, or whoever builds; empty while they are there."""
        return self._workers.away

    def boards(self) -> list[BoardStatus]:
        """All boards seen so far."""
        return self.dispatcher.boards()

    def capacity(self, demand: Demand) -> int:
        """How many boards in service could measure for such a demand at once."""
        return sum(board.in_service for board in self.dispatcher.fitting(demand))

    async def evaluate(
        self,
        batch: Batch,
        options: MeasureOptions = MeasureOptions(),  # noqa: B008  # immutable
    ) -> list[Outcome]:
        """Build and measure a batch; an outcome for each config, in their order.

        Several calls at once keep the boards busy: one builds while another measures.
        """
        demand = batch.demand
        problem = await self._why_no_board(demand)
        if problem:
            return [Outcome(error=ErrorKind.BOARD_LOST, message=problem)] * len(batch.configs)
        # The best by another clock says nothing.
        key = (batch.workload.key, demand.target.key, demand.threads, options.cold, demand.clock)
        best = self._best.setdefault(key, {}) if demand.clock else {}

        def heard(built: Built, outcome: Outcome) -> None:
            if self._witness is not None:
                self._witness.heard(built, outcome, demand, options, next_request())

        return await BatchRun(self._workers, self.dispatcher, batch, options, best, heard).run()

    async def peak_gflops(self, demand: Demand) -> Fact:
        """Measured peak of as many cores of such a board as the demand has threads. Raises EngineError."""
        return await self._fact("peak", demand)

    async def bandwidth_gbs(self, demand: Demand) -> Fact:
        """Billions of bytes a second that so many cores read from memory. Raises EngineError."""
        return await self._fact("bandwidth", demand)

    async def relayout_seconds(self, demand: Demand) -> Fact:
        """What conversions between layouts take, as ``worker.measure.relayout_time`` says. Raises
        EngineError."""
        return await self._fact("layout conversions", demand)

    async def beside(
        self,
        function: str,
        payload: dict[str, Any],
        demand: Demand,
        *,
        cancelled: asyncio.Event,
        timeout_s: float,
        memory_bytes: int,
        anywhere: bool = False,
    ) -> Answer | None:
        """Call ``module:function`` in a child on the cores of a leased board that is the machine it runs on.

        The payload gets the board's ``id``, and ``lock``, the file that is locked while it is used. When the
        board is no such machine the answer is None, or with ``anywhere`` the call is made beside it: the
        payload gets ``board`` as well, the address of its RPC server. When the scheduler goes away the call
        is made again as soon as it is back, and when a worker does, which it may have killed, once more.
        """
        problem = await self._why_no_board(demand)
        if problem:
            return Answer(problem=problem)

        async def once() -> Answer | None:
            request, token = Request(next_request(), demand), uuid.uuid4().hex
            async with self.dispatcher.lease(request) as held:
                answer = await self._workers.run_on(
                    held.lease.board,
                    beside_task,
                    function,
                    payload,
                    timeout_s,
                    memory_bytes,
                    anywhere,
                    token,
                    token=token,
                    stops=[cancelled, held.lost],
                )
            return None if answer is None else Answer(**answer, lease=held.lease.token)

        gone = ""
        try:
            async with asyncio.timeout(timeout_s + self._times.late_s):
                while not cancelled.is_set():
                    try:
                        return await once()
                    except SchedulerGone:
                        await either(self._workers.back(), cancelled.wait())
                    except WorkerGone as error:
                        if gone:
                            raise
                        gone = str(error)
        except (NoBoard, WorkerGone) as error:
            return Answer(problem=str(error))
        except TimeoutError:
            why = self.away or gone or "no board was free for it"
            return Answer(problem=f"{why}, within {timeout_s:.0f} s")
        return Answer(problem="cancelled")

    @property
    def _workers(self) -> DaskClient:
        if self._dask is None:
            raise EngineError("the engine is not running")
        return self._dask

    async def _why_no_board(self, demand: Demand) -> str:
        """Why no board will ever measure this, or nothing."""
        if not self.dispatcher.fitting(demand):
            await self.refresh()  # One may have come.
        if self.dispatcher.fitting(demand):
            return ""
        known = ", ".join(f"{b.id} ({b.target.name}, {b.threads} threads)" for b in self.boards()) or "none"
        wanted = f"target {demand.target.name} with {demand.threads} threads"
        wanted += f" and tags {', '.join(sorted(demand.tags))}" if demand.tags else ""
        wanted += f" and clock {demand.clock}" if demand.clock else ""
        return f"no board for {wanted}; there are: {known}"

    async def _fact(self, what: str, demand: Demand) -> Fact:
        """What a board says of itself; whoever asks for the same meanwhile gets the same."""
        key = (what, *demand.wants)
        if key not in self._facts:
            self._facts[key] = asyncio.create_task(self._measure_fact(what, demand))
            self._facts[key].add_done_callback(lambda _: self._facts.pop(key))
        return await asyncio.shield(self._facts[key])

    async def _measure_fact(self, what: str, demand: Demand) -> Fact:
        """A board that says what cannot be is parked, and another one asked."""
        problem = await self._why_no_board(demand)
        while not problem:
            token = uuid.uuid4().hex
            request = Request(next_request(), replace(demand, priority=PEAK_PRIORITY))
            try:
                async with self.dispatcher.lease(request) as held:
                    board = held.lease.board
                    said = await self._workers.run_on(
                        board, probe_task, what, demand.target, demand.threads, token=token
                    )
                    if "lie" not in said:
                        return Fact(said["found"], board, held.lease.token, time.time())
                    held.lie(f"board {board}: {said['lie']}")
            except (NoBoard, WorkerGone) as error:
                problem = f"the {what} of {demand.target.name} cannot be measured: {error}"
        raise EngineError(problem)

    async def _check(self, board: str, entry: Entry) -> Check:
        """Run the reference kernel on a board and judge it by what the book says of it."""
        try:
            check = await self._workers.run_on(board, check_task, token=uuid.uuid4().hex)
        except SchedulerGone as error:
            await self.refresh()
            raise CannotCheck(str(error)) from None
        except WorkerGone:
            await self.refresh()
            raise
        except Exception as error:
            if short := shortage(error):
                log.warning("board %s cannot be checked now: %s", board, short)
                raise CannotCheck(str(short)) from None
            raise
        if check.problem:
            await self.refresh()  # A board that has gone has not failed.
        (clock,) = [status.clock for status in self.boards() if status.id == board]
        return judge(check, board, entry, clock, self._times)

    async def _watch(self) -> None:
        """Refresh every now and then, and at once when a worker comes or goes."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._times.refresh_s):
                    await self._changed.wait()
            try:
                await self.refresh()
            except Exception:
                log.exception("the workers cannot be asked for their boards")
                await asyncio.sleep(self._times.refresh_s)
