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

from kernels import target as targets
from worker.cores import Cores
from worker.fleet.agent_board import BoardError
from worker.fleet.drivers import LOCAL, Driver, absence, make_driver
from worker.fleet.fleet_file import HOST, Fleet, split_address
from worker.fleet.gateway import Gateway
from worker.fleet.simulated import why_no_emulator
from worker.nursery import Nursery
from worker.shop import MAX_ARTIFACT_BYTES, PRELOAD, Shop, ShopWorker

HOST_BOARD = HOST
RETRY_S = 5.0
"""How long a board that others run is left alone when it could not be set up."""
log = logging.getLogger(__name__)
DASK = {
    "distributed.scheduler.allowed-failures": 2,
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.worker-ttl": "10s",
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

    Builds run in ``nursery``, as many at once as ``cores`` has for them; it starts and closes ``benches``,
    too.
    """

    def __init__(self, state_dir: Path, nursery: Nursery, benches: Benches, cores: Cores) -> None:
        self.address = ""
        self._state_dir, self._nursery, self._benches, self._cores = state_dir, nursery, benches, cores
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
        shop = Shop(self._nursery, self._state_dir, cores=self._cores)
        # Importing takes seconds: everything slow at once.
        await asyncio.gather(
            asyncio.to_thread(lambda: shop.builder.toolchain),
            asyncio.to_thread(shop.store.prune, MAX_ARTIFACT_BYTES),
            self._stack.enter_async_context(self._benches),
        )
        self._stack.enter_context(dask.config.set(DASK))
        scheduler = await self._stack.enter_async_context(
            Scheduler(protocol="inproc", dashboard=False, dashboard_address="127.0.0.1:0", port=0)
        )
        workers = [
            make_worker(scheduler.address, f"build-{number}", shop, build=True)
            for number in range(len(self._cores.builds))
        ]
        workers += [
            make_worker(scheduler.address, "board", bench, build=False) for bench in self._benches.shops
        ]
        for worker in workers:
            await self._stack.enter_async_context(worker)
        self.address = str(scheduler.address)


class Benches:
    """The boards of a fleet, each with the shop of its worker; a context manager.

    The boards that run here must start, or starting fails. The others need not be there: they are offline
    until they are, and those that could not be set up are tried again every RETRY_S. Of ``fleet`` the host is
    this machine itself, on the board's part of ``cores``, with a nursery of its own, whose children get
    ``preload`` and ``env``.
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
    ) -> None:
        self.shops: list[Shop] = []
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
        starts: list[Callable[[], Any]] = []
        for spec in self._fleet.boards:
            if spec.kind == "simulated" and (problem := why_no_emulator(spec.model)):
                raise EngineError(f"board {spec.id}: {problem}; or leave it out of the boards")
            driver = make_driver(
                spec,
                self._state_dir,
                host_cpus=self._cores.board,
                other_cpus=self._cores.builds,
                gateway=gateway,
            )
            self._stack.callback(driver.stop)
            nursery = self._nursery
            if spec.kind == HOST:  # what is measured on the board's own cores starts there
                nursery = make_nursery(self._preload, self._cores.board, self._env)
                self._stack.callback(nursery.close)
            target = self._fleet.known_targets.get(driver.target)
            shop = Shop(
                nursery,
                self._state_dir,
                driver,
                target,
                driver.clock,
                driver.threads,
                spec.tags,
                absence(spec),
            )
            self.shops.append(shop)
            if spec.kind == HOST:
                shop.cores = self._cores
                starts += [nursery.start, partial(_find_target, shop, self._nursery)]
            if spec.kind in LOCAL:
                starts.append(driver.start)
            else:
                self._retries.append(asyncio.create_task(_keep_starting(driver, shop)))
        await asyncio.gather(*map(asyncio.to_thread, starts))


async def _keep_starting(driver: Driver, shop: Shop) -> None:
    """Start a board that others run, again and again until it can be; its shop has the reason until then."""
    usual = shop.absence
    while True:
        try:
            await asyncio.to_thread(driver.start)
        except BoardError as error:
            if str(error) != shop.absence:  # once for each reason
                log.warning("%s; it is tried again", error)
            shop.absence = str(error)
            await asyncio.sleep(RETRY_S)
        else:
            shop.absence = usual
            return


def make_nursery(preload: Sequence[str], cpus: Sequence[int], env: dict[str, str] | None = None) -> Nursery:
    """A nursery, not started, whose children have what builds and measurements import, and ``preload``."""
    return Nursery((*PRELOAD, *preload), cpus, env)


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
    """(cores for builds, cores for a board with ``threads`` threads) of those this process may use.

    Where the board has all of them, builds have all, too.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if threads > len(cpus):
        raise EngineError(f"a board with {threads} threads needs as many cores; there are {len(cpus)}")
    board = cpus[len(cpus) - threads :]
    return [cpu for cpu in cpus if cpu not in board] or cpus, board


def _find_target(shop: Shop, nursery: Nursery) -> None:
    """Tell a shop of this machine's board what this machine is."""
    shop.target = targets.from_json(nursery.call("worker.host:host_target_in_child", None, timeout_s=60))
