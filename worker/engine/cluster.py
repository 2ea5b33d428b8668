"""What runs in this process: the boards of a fleet, and in the embedded cluster scheduler and workers too."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import dask
from distributed import Scheduler

import worker.engine.steady  # noqa: F401  # of each process that Dask runs in
from kernels import target as targets
from worker.children.nursery import Nursery
from worker.engine.dask_worker import PRELOAD, ContextWorker
from worker.engine.worker_context import WorkerContext
from worker.fleet.drivers.base import BoardError, Driver
from worker.fleet.drivers.gateway import Gateway
from worker.fleet.drivers.spec import Site, split_address
from worker.fleet.fleet_file import Fleet
from worker.fleet.times import USUAL
from worker.measure.cores import Cores
from worker.phases import phases

log = logging.getLogger(__name__)
DASK = {
    "distributed.scheduler.allowed-failures": 2,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.worker-saturation": 1.0,
    # Workers of this process do not die alone; when it stood still all would count as dead, for good.
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.daemon": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.memory.terminate": False,
    "distributed.admin.tick.limit": "60s",
    # What nobody looks at here: each worker would sample its thread and its loop, together 700 times a
    # second, which takes more of a core than all else an idle coordinator does.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.system-monitor.disk": False,
}


class EngineError(RuntimeError):
    """The engine cannot do what is asked; the message says what is missing."""


class Cluster:
    """Scheduler, build workers and boards, nothing listening beyond the loopback; a context manager.

    Builds run in ``nursery``, as many at once as ``cores`` has for them; it starts and closes ``boards``,
    too.
    """

    def __init__(self, state_dir: Path, nursery: Nursery, boards: FleetBoards, cores: Cores) -> None:
        self.address = ""
        self._state_dir, self._nursery, self._boards, self._cores = state_dir, nursery, boards, cores
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start everything; raises EngineError, BoardError or NurseryError."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        context = WorkerContext(self._nursery, self._state_dir, cores=self._cores)
        # Importing takes seconds: everything slow at once.
        await asyncio.gather(
            asyncio.to_thread(lambda: context.builder.toolchain),
            self._stack.enter_async_context(self._boards),
        )
        self._stack.enter_context(dask.config.set(DASK))
        scheduler = await self._stack.enter_async_context(
            Scheduler(protocol="inproc", dashboard=False, dashboard_address="127.0.0.1:0", port=0)
        )
        workers = [
            make_worker(scheduler.address, f"build-{number}", context, build=True)
            for number in range(len(self._cores.builds))
        ]
        workers += [
            make_worker(scheduler.address, "board", context, build=False) for context in self._boards.contexts
        ]
        for each in workers:
            await self._stack.enter_async_context(each)
        self.address = str(scheduler.address)


class FleetBoards:
    """The boards of a fleet, each with the context of its worker; a context manager.

    The boards that run here must start, or starting fails. The others need not be there: they are offline
    until they are, and those that could not be set up are tried again every ``retry_s``. Of ``fleet`` the
    host is this machine itself, on the board's part of ``cores``, with a nursery of its own, whose children
    get ``preload`` and ``env``.
    """

    def __init__(
        self,
        state_dir: Path,
        nursery: Nursery,
        fleet: Fleet,
        cores: Cores,
        *,
        preload: Sequence[str] = (),
        env: dict[str, str] | None = None,
        retry_s: float = USUAL.retry_s,
    ) -> None:
        self._retry_s = retry_s
        self.contexts: list[WorkerContext] = []
        self._state_dir, self._nursery, self._fleet = state_dir, nursery, fleet
        self._cores, self._preload, self._env = cores, preload, env
        self._stack = AsyncExitStack()
        self._retries: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Start all boards; raises EngineError, BoardError or NurseryError."""
        try:
            await self._start()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    async def _close(self) -> None:
        for retry in self._retries:
            retry.cancel()
        await asyncio.gather(*self._retries, return_exceptions=True)
        await self._stack.aclose()

    async def _start(self) -> None:
        gateway = Gateway(*split_address(self._fleet.listen))
        site = Site(self._state_dir, self._cores.board, self._cores.builds, gateway)
        starts: list[Callable[[], Any]] = []
        for spec in self._fleet.boards:
            if spec.local and (problem := spec.why_not()):
                raise EngineError(f"board {spec.id}: {problem}; or leave it out of the boards")
            driver = spec.driver(site)
            self._stack.callback(driver.stop)
            target = self._fleet.known_targets.get(driver.target)
            nursery, native = self._nursery, spec is self._fleet.host
            if native:  # what is measured on the board's own cores starts there
                nursery = make_nursery(self._preload, self._cores.board, self._env)
                self._stack.callback(nursery.close)
            context = WorkerContext(
                nursery,
                self._state_dir,
                driver,
                target,
                spec.tags,
                spec.absence(),
                kind=spec.kind,
                where=spec.where,
            )
            self.contexts.append(context)
            if native:
                context.cores = self._cores
                starts += [nursery.start, partial(_find_target, context, self._nursery)]
            if spec.local:
                starts.append(driver.start)
            else:
                self._retries.append(asyncio.create_task(_keep_starting(driver, context, self._retry_s)))
        phases.info("starting boards: %s", ", ".join(spec.id for spec in self._fleet.boards) or "none")
        await asyncio.gather(*map(asyncio.to_thread, starts))


async def _keep_starting(driver: Driver, context: WorkerContext, retry_s: float) -> None:
    """Start a board that others run, again and again until it can be; ``absence`` says why until then."""
    usual = context.absence
    while True:
        try:
            await asyncio.to_thread(driver.start)
        except BoardError as error:
            if str(error) != context.absence:  # once for each reason
                log.warning("%s; it is tried again", error)
            context.absence = str(error)
            await asyncio.sleep(retry_s)
        else:
            context.absence = usual
            return


def make_nursery(preload: Sequence[str], cpus: Sequence[int], env: dict[str, str] | None = None) -> Nursery:
    """A nursery, not started, whose children have what builds and measurements import, and ``preload``."""
    return Nursery((*PRELOAD, *preload), cpus, env)


def make_worker(
    address: str, name: str, context: WorkerContext, *, build: bool, host: str | None = None
) -> Any:
    """A Dask worker with one thread that builds, or else measures on its context's board."""
    resources: dict[str, float] = (
        {"build": 1} if build or context.board is None else {f"board:{context.board.id}": 1}
    )
    worker = ContextWorker(
        address,
        nthreads=1,
        name=f"{name}-{uuid.uuid4().hex[:8]}",
        resources=resources,
        local_directory=str(context.state_dir / "dask"),
        host=host,
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
    )
    worker.context = context
    return worker


def split_cpus(threads: int) -> tuple[list[int], list[int]]:
    """(cores for builds, cores for a board with ``threads`` threads) of those this process may use.

    Where the board has all of them, builds have all, too.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if threads > len(cpus):
        raise EngineError(f"a board with {threads} threads needs as many cores; there are {len(cpus)}")
    board = cpus[len(cpus) - threads :]
    return [cpu for cpu in cpus if cpu not in board] or cpus, board


def _find_target(context: WorkerContext, nursery: Nursery) -> None:
    """Tell the worker of this machine's board what this machine is."""
    context.target = targets.from_json(
        nursery.call("worker.measure.host:host_target_in_child", None, timeout_s=60)
    )
