"""The engine: Dask spreads builds over cores and measurements over boards, here or on other machines."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from distributed import Client, KilledWorker

from kernels.target import Target
from worker.candidate import Candidate
from worker.cluster import HOST_BOARD, Cluster, EngineError, make_nursery, split_cpus
from worker.measure import VERIFY_ROUNDS, BoardHandle, MeasureOptions
from worker.nursery import Nursery
from worker.outcome import ErrorKind, Outcome
from worker.shop import build_task, describe, failed, measure_task, now, peak_task, stop


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
            idle = not set(build_cpus).isdisjoint(board_cpus)
            self._nursery = make_nursery(self._preload, build_cpus, self._env, idle=idle)
            self._stack.callback(self._nursery.close)
            address = self._address
            if address is None:
                cluster = Cluster(
                    self._state_dir,
                    self._nursery,
                    self._names,
                    build_cpus,
                    board_cpus,
                    preload=self._preload,
                    env=self._env,
                )
                address = (await self._stack.enter_async_context(cluster)).address
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


async def _result(future: Any) -> Any:
    return await future


__all__ = ["BoardHandle", "BoardStatus", "Engine", "EngineError", "split_cpus"]
