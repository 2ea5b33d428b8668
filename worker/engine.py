"""The engine: Dask spreads builds over cores and measurements over boards, here or on other machines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from distributed import Client

from kernels.target import Target
from worker.batch import Batch, Order, next_request
from worker.candidate import Candidate
from worker.cluster import HOST_BOARD, Benches, Cluster, EngineError, make_nursery, split_cpus
from worker.cores import Cores
from worker.crew import Crew, WorkerGone
from worker.fleet.book import Book, Check, Entry
from worker.fleet.dispatcher import Dispatcher, NoBoard
from worker.fleet.fleet_file import Fleet, fleet_of
from worker.fleet.health import judge
from worker.fleet.matching import Request
from worker.fleet.memory_book import MemoryBook
from worker.fleet.status import BoardStatus
from worker.measure import VERIFY_ROUNDS, BoardHandle, MeasureOptions
from worker.nursery import Nursery
from worker.outcome import Answer, ErrorKind, Outcome
from worker.shop import beside_task, check_task, peak_task, relayout_task
from worker.stream import OnOutcome
from worker.tasks import end

log = logging.getLogger(__name__)
REFRESH_S = 2.0
LATE_S = 20.0
"""How much later than its deadline something beside a board may end, the wait for the board included."""
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
        boards: Fleet | Sequence[str] = (HOST_BOARD,),
        threads: int = 1,
        preload: Sequence[str] = (),
        env: dict[str, str] | None = None,
        book: Book | None = None,
        holder: str = "",
    ) -> None:
        self._state_dir, self._address = state_dir, scheduler
        self._fleet = boards if isinstance(boards, Fleet) else fleet_of(boards, threads)
        self._preload, self._env = tuple(preload), env
        self._stack = AsyncExitStack()
        self._client: Any = None
        self._nursery: Nursery | None = None
        self._crew: Crew | None = None
        self._changed = asyncio.Event()
        self.dispatcher = Dispatcher(book or MemoryBook(), self._check, holder or uuid.uuid4().hex)
        self._watcher: asyncio.Task[None] | None = None
        self._best: dict[tuple[str, str, int, bool, str], float] = {}
        self._facts: dict[tuple[str, str, int, str], asyncio.Task[Any]] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Start everything and wait until it is ready; raises EngineError, BoardError or NurseryError."""
        try:
            cores = Cores(*split_cpus(self._fleet.host.threads if self._fleet.host else 0))
            self._nursery = make_nursery(self._preload, cores.builds, self._env)
            self._stack.callback(self._nursery.close)
            address = self._address
            if address is None:
                benches = Benches(
                    self._state_dir,
                    self._nursery,
                    self._fleet,
                    cores,
                    preload=self._preload,
                    env=self._env,
                )
                cluster = Cluster(self._state_dir, self._nursery, benches, cores)
                address = (await self._stack.enter_async_context(cluster)).address
            await asyncio.to_thread(self._nursery.start)
            make_client: Any = Client  # untyped in distributed
            client = make_client(address, asynchronous=True, set_as_default=False, timeout=10)
            self._crew = Crew(await self._stack.enter_async_context(client), self._changed.set)
            self._stack.callback(self._crew.close)
            await self.dispatcher.start()
            self._stack.push_async_callback(self.dispatcher.close)
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
        self._crew = None

    async def refresh(self) -> None:
        """Ask all workers which boards there are."""
        self._changed.clear()
        await self.dispatcher.seen(await self._workers.listings())

    def boards(self) -> list[BoardStatus]:
        """All boards seen so far."""
        return self.dispatcher.boards()

    def capacity(
        self, target: Target, *, threads: int = 1, tags: frozenset[str] = frozenset(), clock: str = ""
    ) -> int:
        """How many boards in service could measure for such a job at once."""
        request = Request(0, target.key, threads, tags, clock=clock)
        return sum(board.in_service for board in self.dispatcher.fitting(request))

    async def evaluate(
        self,
        candidates: Sequence[Candidate],
        options: MeasureOptions = MeasureOptions(),  # noqa: B008  # immutable
        *,
        priority: float = 0.0,
        cancelled: asyncio.Event | None = None,
        job: int | None = None,
        tags: frozenset[str] = frozenset(),
        clock: str = "",
        level: int = 0,
        on_outcome: OnOutcome | None = None,
    ) -> list[Outcome]:
        """Build and measure candidates of one workload; an outcome for each, in their order.

        ``on_outcome`` gets each with its place as soon as it is there. Jobs of a higher ``level`` go first,
        then what has a higher ``priority``; ``tags`` must all be the board's, and ``clock`` its clock. Once
        ``cancelled`` is set, whatever has not ended ends as ``cancelled``. Several calls at once keep the
        boards busy: one builds while another measures.
        """
        cancelled = cancelled or asyncio.Event()
        order = Order(options, 0, priority, level, job, tags, clock, cancelled, on_outcome)
        return await self._run(candidates, order)

    async def verify(
        self,
        candidates: Sequence[Candidate],
        options: MeasureOptions = MeasureOptions(),  # noqa: B008  # immutable
        *,
        rounds: int = VERIFY_ROUNDS,
        priority: float = 0.0,
        cancelled: asyncio.Event | None = None,
        job: int | None = None,
        tags: frozenset[str] = frozenset(),
        clock: str = "",
        level: int = 0,
    ) -> list[Outcome]:
        """Measure candidates of one workload again, in turns, so that their order can be trusted."""
        order = Order(options, rounds, priority, level, job, tags, clock, cancelled or asyncio.Event())
        return await self._run(candidates, order)

    async def peak_gflops(self, target: Target, threads: int = 1, clock: str = "wall") -> float:
        """Measured peak of ``threads`` cores of a board of ``target`` by its ``clock``; measured once.

        Raises EngineError.
        """
        peak: float = await self._fact("peak", peak_task, target, threads, clock)
        return peak

    async def relayout_seconds(
        self, target: Target, threads: int = 1, clock: str = "wall"
    ) -> dict[str, list[tuple[float, float]]]:
        """What conversions between layouts take, as ``worker.relayout_time`` says; measured once.

        Raises EngineError.
        """
        name = "layout conversions"
        found: dict[str, list[tuple[float, float]]] = await self._fact(
            name, relayout_task, target, threads, clock
        )
        return found

    async def beside(
        self,
        function: str,
        payload: dict[str, Any],
        target: Target,
        *,
        threads: int = 1,
        tags: frozenset[str] = frozenset(),
        clock: str = "wall",
        level: int = 0,
        job: int | None = None,
        cancelled: asyncio.Event | None = None,
        timeout_s: float,
        memory_bytes: int,
    ) -> Answer | None:
        """Call ``module:function`` in a child on the cores of a leased board that is the machine it runs on.

        The payload gets ``lock``, the file that is locked while the board is used. None when the board is no
        such machine.
        """
        cancelled = cancelled or asyncio.Event()
        problem = await self._why_no_board(target, threads, tags, clock)
        if problem:
            return Answer(problem=problem)
        request = Request(
            next_request(), target.key, threads, tags, level, job=job, what="whole model", clock=clock
        )
        token = uuid.uuid4().hex
        try:
            async with asyncio.timeout(timeout_s + LATE_S), self.dispatcher.lease(request) as held:
                answer = await self._workers.run_on(
                    held.lease.board,
                    beside_task,
                    function,
                    payload,
                    timeout_s,
                    memory_bytes,
                    token,
                    token=token,
                    stops=[cancelled, held.lost],
                )
        except (NoBoard, WorkerGone) as error:
            return Answer(problem=str(error))
        except TimeoutError:
            return Answer(problem=f"no board was free for it within {timeout_s:.0f} s")
        return None if answer is None else Answer(**answer, lease=held.lease.token)

    @property
    def _workers(self) -> Crew:
        if self._crew is None:
            raise EngineError("the engine is not running")
        return self._crew

    async def _run(self, candidates: Sequence[Candidate], order: Order) -> list[Outcome]:
        if not candidates:
            return []
        first, options = candidates[0], order.options
        if any(
            (c.workload, c.target, c.threads) != (first.workload, first.target, first.threads)
            for c in candidates
        ):
            raise ValueError("a batch has one workload, one target and one number of threads")
        problem = await self._why_no_board(first.target, first.threads, order.tags, order.clock)
        if problem:
            return [Outcome(error=ErrorKind.BOARD_LOST, message=problem)] * len(candidates)
        # Of another clock the best says nothing.
        key = (first.workload.key, first.target.key, first.threads, options.cold, order.clock)
        if options.best_s is None and order.clock:
            order = replace(order, options=replace(options, best_s=self._best.get(key)))
        outcomes = await Batch(self._workers, self.dispatcher, candidates, order).run()
        costs = [outcome.cost_s for outcome in outcomes if outcome.cost_s is not None]
        if costs and order.clock:
            self._best[key] = min([*costs, self._best.get(key, math.inf)])
        return outcomes

    async def _why_no_board(
        self, target: Target, threads: int, tags: frozenset[str] = frozenset(), clock: str = ""
    ) -> str:
        """Why no board will ever measure this, or nothing."""
        request = Request(0, target.key, threads, tags, clock=clock)
        if not self.dispatcher.fitting(request):
            await self.refresh()  # One may have come.
        if self.dispatcher.fitting(request):
            return ""
        known = ", ".join(f"{b.id} ({b.target.name}, {b.threads} threads)" for b in self.boards()) or "none"
        tagged = f" and tags {', '.join(sorted(tags))}" if tags else ""
        timed = f" and clock {clock}" if clock else ""
        return f"no board for target {target.name} with {threads} threads{tagged}{timed}; there are: {known}"

    async def _fact(
        self, what: str, task: Callable[..., Any], target: Target, threads: int, clock: str
    ) -> Any:
        """What ``task`` measures of a board of ``target``; once, unless it fails."""
        key = (what, target.key, threads, clock)
        if key not in self._facts or (self._facts[key].done() and self._facts[key].exception()):
            self._facts[key] = asyncio.create_task(self._measure_fact(what, task, target, threads, clock))
        return await asyncio.shield(self._facts[key])

    async def _measure_fact(
        self, what: str, task: Callable[..., Any], target: Target, threads: int, clock: str
    ) -> Any:
        problem = await self._why_no_board(target, threads, clock=clock)
        if problem:
            raise EngineError(problem)
        token = uuid.uuid4().hex
        request = Request(next_request(), target.key, threads, priority=PEAK_PRIORITY, what=what, clock=clock)
        try:
            async with self.dispatcher.lease(request) as held:
                return await self._workers.run_on(held.lease.board, task, target, threads, token=token)
        except (NoBoard, WorkerGone) as error:
            raise EngineError(f"the {what} of {target.name} cannot be measured: {error}") from None

    async def _check(self, board: str, entry: Entry) -> Check:
        """Run the reference kernel on a board and judge it by the board's page in the book."""
        try:
            check = await self._workers.run_on(board, check_task, token=uuid.uuid4().hex)
        except WorkerGone:
            await self.refresh()
            raise
        if check.problem:
            await self.refresh()  # A board that has gone has not failed.
        (clock,) = [status.clock for status in self.boards() if status.id == board]
        return judge(check, entry.reference_s, entry.reference_artifact, clock)

    async def _watch(self) -> None:
        """Refresh every now and then, and at once when a worker comes or goes."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_S):
                    await self._changed.wait()
            try:
                await self.refresh()
            except Exception:
                log.exception("the workers cannot be asked for their boards")
                await asyncio.sleep(REFRESH_S)


__all__ = ["BoardHandle", "BoardStatus", "Engine", "EngineError"]
