"""The engine: Dask spreads builds over cores and measurements over boards, here or on other machines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import dask
from distributed import Client, KilledWorker, Scheduler

from kernels import target as targets
from kernels.target import CATALOGUE, Target
from worker.candidate import Candidate
from worker.fleet.native import NativeBoard
from worker.fleet.simulated import SimulatedBoard, why_no_emulator
from worker.measure import VERIFY_ROUNDS, BoardHandle, MeasureOptions
from worker.nursery import Nursery
from worker.outcome import ErrorKind, Outcome
from worker.shop import (
    MAX_ARTIFACT_BYTES,
    PRELOAD,
    Shop,
    ShopWorker,
    build_task,
    describe,
    failed,
    measure_task,
    now,
    peak_task,
    stop,
)

HOST_BOARD = "host"
DASK = {
    "distributed.scheduler.allowed-failures": 2,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.worker-ttl": "10s",
    "distributed.worker.daemon": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.admin.tick.limit": "60s",
}


class EngineError(RuntimeError):
    """The engine cannot do what is asked; the message says what is missing."""


@dataclass
class BoardStatus:
    """A board as the engine sees it. ``busy_s`` is the time it spent on trials, ``last_seen`` is in
    seconds since the epoch."""

    id: str
    target: Target
    clock: str
    threads: int
    alive: bool = True
    waiting: int = 0
    trials: int = 0
    busy_s: float = 0.0
    last_seen: float = 0.0

    @property
    def state(self) -> str:
        """``idle``, ``measuring`` or ``offline``."""
        if not self.alive:
            return "offline"
        return "measuring" if self.waiting else "idle"


class Engine:
    """Builds and measures candidates; an async context manager.

    Embedded by default: scheduler, build workers and ``boards``, nothing listening beyond the loopback.
    ``host`` is this machine itself, with ``threads`` cores, the last ones; builds get the others (all share
    the only one on a machine with one core). The other boards are names in SIM_MODELS; their times are
    simulated, so they share the builds' cores. ``scheduler`` (``tcp://...``) joins a shared one instead,
    whose workers were started by ``python -m worker``.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        scheduler: str | None = None,
        boards: Sequence[str] = (HOST_BOARD,),
        threads: int = 1,
        preload: Sequence[str] = (),
        env: dict[str, str] | None = None,
    ) -> None:
        self._state_dir, self._address, self._names = state_dir, scheduler, boards
        self._threads, self._preload, self._env = threads, tuple(preload), env
        self._stack = AsyncExitStack()
        self._client: Any = None
        self._nursery: Nursery | None = None
        self._boards: dict[str, BoardStatus] = {}
        self._best: dict[tuple[str, str, int, bool], float] = {}
        self._peaks: dict[tuple[str, int], asyncio.Task[float]] = {}

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
            build_cpus, board_cpus = split_cpus(self._threads if HOST_BOARD in self._names else 0)
            # On the board's own cores a build may run only while nothing is measured.
            self._nursery = self._make_nursery(build_cpus, idle=not set(build_cpus).isdisjoint(board_cpus))
            address = self._address or await self._embed(self._nursery, build_cpus, board_cpus)
            await asyncio.to_thread(self._nursery.start)
            make_client: Any = Client  # untyped in distributed
            client = make_client(address, asynchronous=True, set_as_default=False, timeout=10)
            self._client = await self._stack.enter_async_context(client)
            await self.refresh()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop everything; what runs is killed."""
        await self._stack.aclose()
        self._client = None

    async def refresh(self) -> None:
        """Ask all workers which boards there are."""
        found = [board for board in (await self._client.run(describe)).values() if board]
        for status in self._boards.values():
            status.alive = False
        for board in found:
            fresh = BoardStatus(board["id"], board["target"], board["clock"], board["threads"])
            status = self._boards.setdefault(board["id"], fresh)
            status.alive, status.last_seen = board["alive"], now()

    def boards(self) -> list[BoardStatus]:
        """All boards seen so far."""
        return list(self._boards.values())

    async def evaluate(
        self,
        candidates: Sequence[Candidate],
        options: MeasureOptions = MeasureOptions(),  # noqa: B008  # immutable
        *,
        priority: float = 0.0,
        cancelled: asyncio.Event | None = None,
    ) -> list[Outcome]:
        """Build and measure candidates of one workload; an outcome for each, in their order.

        What has a higher priority goes first. Once ``cancelled`` is set, whatever has not ended ends as
        ``cancelled``. Several calls at once keep the board busy: one builds while another measures.
        """
        return await self._run(candidates, options, 0, priority, cancelled)

    async def verify(
        self,
        candidates: Sequence[Candidate],
        options: MeasureOptions = MeasureOptions(),  # noqa: B008  # immutable
        *,
        rounds: int = VERIFY_ROUNDS,
        priority: float = 0.0,
        cancelled: asyncio.Event | None = None,
    ) -> list[Outcome]:
        """Measure candidates of one workload again, in turns, so that their order can be trusted."""
        return await self._run(candidates, options, rounds, priority, cancelled)

    async def peak_gflops(self, target: Target, threads: int = 1) -> float:
        """Measured peak of ``threads`` cores of a board of ``target``; measured once."""
        key = (target.key, threads)
        if key not in self._peaks or (self._peaks[key].done() and self._peaks[key].exception()):
            board = await self._find_board(target, threads)
            future = self._submit(peak_task, target, threads, board=board, priority=1e9)
            self._peaks[key] = asyncio.create_task(_result(future))
        return await asyncio.shield(self._peaks[key])

    async def nursery_call(self, function: str, payload: Any, **options: Any) -> Any:
        """``Nursery.call`` in a child on this machine, for work such as reading models."""
        assert self._nursery is not None
        return await asyncio.to_thread(self._nursery.call, function, payload, **options)

    async def _run(
        self,
        candidates: Sequence[Candidate],
        options: MeasureOptions,
        rounds: int,
        priority: float,
        cancelled: asyncio.Event | None,
    ) -> list[Outcome]:
        if not candidates:
            return []
        first, count = candidates[0], len(candidates)
        if any(
            (c.workload, c.target, c.threads) != (first.workload, first.target, first.threads)
            for c in candidates
        ):
            raise ValueError("a batch has one workload, one target and one number of threads")
        try:
            board = await self._find_board(first.target, first.threads)
        except EngineError as error:
            return failed(ErrorKind.BOARD_LOST, str(error), count)
        key = (first.workload.key, first.target.key, first.threads, options.cold)
        if options.best_s is None:
            options = replace(options, best_s=self._best.get(key))
        token = uuid.uuid4().hex
        builds = [
            self._submit(build_task, candidate, options.build_timeout_s, token, priority=priority)
            for candidate in candidates
        ]
        future = self._submit(measure_task, builds, options, rounds, token, board=board, priority=priority)
        board.waiting += 1
        try:
            outcomes = await self._outcomes(future, token, count, cancelled)
        except KilledWorker as error:
            if count == 1:
                outcomes = failed(ErrorKind.POISON, f"killed the workers it ran on: {error}", 1)
            else:  # One of them did it: the others shall not pay for it.
                alone = [
                    self._run([candidate], options, rounds, priority, cancelled) for candidate in candidates
                ]
                return [outcome for one in [await run for run in alone] for outcome in one]
        finally:
            board.waiting -= 1
            await self._client.cancel([future, *builds], force=True)
        outcomes = [replace(outcome, clock=board.clock) for outcome in outcomes]
        board.trials += count
        board.busy_s += sum(outcome.measure_s for outcome in outcomes)
        board.last_seen = now()
        costs = [outcome.cost_s for outcome in outcomes if outcome.cost_s is not None]
        self._best[key] = min([*costs, self._best.get(key, float("inf"))])
        return outcomes

    async def _outcomes(
        self, future: Any, token: str, count: int, cancelled: asyncio.Event | None
    ) -> list[Outcome]:
        """The result of a measuring task, or what its failure means."""
        work = asyncio.create_task(_result(future))
        watch = asyncio.create_task(cancelled.wait()) if cancelled is not None else None
        try:
            await asyncio.wait([work, watch] if watch else [work], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await self._client.run(stop, token)
            outcomes: list[Outcome] = await work
            return outcomes
        except asyncio.CancelledError:
            if not future.cancelled():  # This call itself was cancelled.
                with contextlib.suppress(Exception):
                    await self._client.run(stop, token)
                raise
            return failed(ErrorKind.BOARD_LOST, "the scheduler was lost", count)
        finally:
            work.cancel()
            if watch is not None:
                watch.cancel()

    def _submit(
        self, function: Callable[..., Any], *arguments: Any, priority: float, board: BoardStatus | None = None
    ) -> Any:
        resource = "build" if board is None else f"board:{board.id}"
        return self._client.submit(
            function, *arguments, resources={resource: 1}, priority=priority, pure=False, retries=0
        )

    async def _find_board(self, target: Target, threads: int) -> BoardStatus:
        """The board of that kind with the least to do; raises EngineError when there is none."""
        with contextlib.suppress(EngineError):
            return self._board_for(target, threads)
        await self.refresh()  # One may have come, or come back.
        return self._board_for(target, threads)

    def _board_for(self, target: Target, threads: int) -> BoardStatus:
        alike = [board for board in self._boards.values() if board.target.key == target.key and board.alive]
        fitting = [board for board in alike if board.threads >= threads]
        if not fitting:
            known = ", ".join(f"{b.id} ({b.target.name}, {b.threads} threads)" for b in self._boards.values())
            raise EngineError(f"no board for target {target.name} with {threads} threads; there are: {known}")
        return min(fitting, key=lambda board: board.waiting)

    def _make_nursery(self, cpus: Sequence[int], *, idle: bool = False) -> Nursery:
        nursery = Nursery((*PRELOAD, *self._preload), cpus, self._env, idle=idle)
        self._stack.callback(nursery.close)
        return nursery

    async def _embed(self, nursery: Nursery, build_cpus: Sequence[int], board_cpus: Sequence[int]) -> str:
        """Scheduler, build workers and boards in this process; the scheduler's address."""
        simulated = self._simulated_boards(build_cpus)
        shop = Shop(nursery, self._state_dir)
        starts: list[Callable[[], Any]] = [
            lambda: shop.builder.toolchain,
            lambda: shop.store.prune(MAX_ARTIFACT_BYTES),
            *(board.start for board in simulated),
        ]
        benches = [
            Shop(nursery, self._state_dir, board, CATALOGUE[board.target], board.clock) for board in simulated
        ]
        if HOST_BOARD in self._names:
            host = NativeBoard(
                HOST_BOARD, state_dir=self._state_dir, cpus=board_cpus, threads=len(board_cpus)
            )
            self._stack.callback(host.stop)
            bench = Shop(self._make_nursery(board_cpus), self._state_dir, host, threads=len(board_cpus))
            starts += [host.start, bench.nursery.start, lambda: _find_target(bench, nursery)]
            benches.insert(0, bench)
        # Importing takes seconds: everything slow at once.
        await asyncio.gather(*map(asyncio.to_thread, starts))
        self._stack.enter_context(dask.config.set(DASK))
        scheduler = await self._stack.enter_async_context(
            Scheduler(protocol="inproc", dashboard=False, dashboard_address="127.0.0.1:0", port=0)
        )
        workers = [
            make_worker(scheduler.address, f"build-{number}", shop, build=True)
            for number in range(len(build_cpus))
        ]
        workers += [make_worker(scheduler.address, "board", bench, build=False) for bench in benches]
        for worker in workers:
            await self._stack.enter_async_context(worker)
        return str(scheduler.address)

    def _simulated_boards(self, cpus: Sequence[int]) -> list[SimulatedBoard]:
        """The simulated ones of the boards, not started; raises EngineError where one cannot run."""
        names = [name for name in self._names if name != HOST_BOARD]
        boards = [SimulatedBoard(name, state_dir=self._state_dir, cpus=cpus) for name in names]
        for board in boards:
            problem = why_no_emulator(board.model)
            if problem:
                raise EngineError(f"board {problem}; or leave it out of the boards")
            self._stack.callback(board.stop)
        return boards


def _find_target(shop: Shop, nursery: Nursery) -> None:
    """Tell a shop of this machine's board what this machine is."""
    shop.target = targets.from_json(nursery.call("worker.host:host_target_in_child", None, timeout_s=60))


def make_worker(address: str, name: str, shop: Shop, *, build: bool, host: str | None = None) -> Any:
    """A Dask worker with one thread that builds, or else measures on its shop's board."""
    resources: dict[str, float] = (
        {"build": 1} if build or shop.board is None else {f"board:{shop.board.id}": 1}
    )
    worker = ShopWorker(
        address,
        nthreads=1,
        name=f"{name}-{uuid.uuid4().hex[:8]}",
        resources=resources,
        local_directory=str(shop.state_dir / "dask"),
        host=host,
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
    )
    worker.shop = shop
    return worker


def split_cpus(threads: int) -> tuple[list[int], list[int]]:
    """(cores for builds, cores for a board with ``threads`` threads) of those this process may use."""
    cpus = sorted(os.sched_getaffinity(0))
    if threads > len(cpus):
        raise EngineError(f"a board with {threads} threads needs as many cores; there are {len(cpus)}")
    board = cpus[len(cpus) - threads :]
    return [cpu for cpu in cpus if cpu not in board] or cpus[:1], board


async def _result(future: Any) -> Any:
    return await future


__all__ = ["BoardHandle", "BoardStatus", "Engine", "EngineError", "make_worker", "split_cpus"]
