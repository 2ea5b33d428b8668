"""The embedded cluster: scheduler, build workers and boards in this process."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import dask
from distributed import Scheduler

from kernels import target as targets
from kernels.target import CATALOGUE
from worker.fleet.native import NativeBoard
from worker.fleet.simulated import SimulatedBoard, why_no_emulator
from worker.nursery import Nursery
from worker.shop import MAX_ARTIFACT_BYTES, PRELOAD, Shop, ShopWorker

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


class Cluster:
    """Scheduler, build workers and boards, nothing listening beyond the loopback; a context manager.

    Builds run in ``nursery`` on ``build_cpus``. Of ``boards``, ``host`` is this machine itself on
    ``board_cpus``; the others are names in SIM_MODELS, whose times are simulated, so that they share the
    builds' cores. ``preload`` and ``env`` are what the children of the host board's nursery get.
    """

    def __init__(
        self,
        state_dir: Path,
        nursery: Nursery,
        boards: Sequence[str],
        build_cpus: Sequence[int],
        board_cpus: Sequence[int],
        *,
        preload: Sequence[str] = (),
        env: dict[str, str] | None = None,
    ) -> None:
        self.address = ""
        self._state_dir, self._nursery, self._names = state_dir, nursery, boards
        self._build_cpus, self._board_cpus = build_cpus, board_cpus
        self._preload, self._env = preload, env
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
        simulated = self._simulated_boards()
        shop = Shop(self._nursery, self._state_dir)
        starts: list[Callable[[], Any]] = [
            lambda: shop.builder.toolchain,
            lambda: shop.store.prune(MAX_ARTIFACT_BYTES),
            *(board.start for board in simulated),
        ]
        benches = [
            Shop(self._nursery, self._state_dir, board, CATALOGUE[board.target], board.clock)
            for board in simulated
        ]
        if HOST_BOARD in self._names:
            threads = len(self._board_cpus)
            host = NativeBoard(HOST_BOARD, state_dir=self._state_dir, cpus=self._board_cpus, threads=threads)
            self._stack.callback(host.stop)
            nursery = make_nursery(self._preload, self._board_cpus, self._env)
            self._stack.callback(nursery.close)
            bench = Shop(nursery, self._state_dir, host, threads=threads)
            starts += [host.start, nursery.start, lambda: _find_target(bench, self._nursery)]
            benches.insert(0, bench)
        # Importing takes seconds: everything slow at once.
        await asyncio.gather(*map(asyncio.to_thread, starts))
        self._stack.enter_context(dask.config.set(DASK))
        scheduler = await self._stack.enter_async_context(
            Scheduler(protocol="inproc", dashboard=False, dashboard_address="127.0.0.1:0", port=0)
        )
        workers = [
            make_worker(scheduler.address, f"build-{number}", shop, build=True)
            for number in range(len(self._build_cpus))
        ]
        workers += [make_worker(scheduler.address, "board", bench, build=False) for bench in benches]
        for worker in workers:
            await self._stack.enter_async_context(worker)
        self.address = str(scheduler.address)

    def _simulated_boards(self) -> list[SimulatedBoard]:
        """The simulated ones of the boards, not started; raises EngineError where one cannot run."""
        names = [name for name in self._names if name != HOST_BOARD]
        boards = [SimulatedBoard(name, state_dir=self._state_dir, cpus=self._build_cpus) for name in names]
        for board in boards:
            problem = why_no_emulator(board.model)
            if problem:
                raise EngineError(f"board {problem}; or leave it out of the boards")
            self._stack.callback(board.stop)
        return boards


def make_nursery(
    preload: Sequence[str], cpus: Sequence[int], env: dict[str, str] | None = None, *, idle: bool = False
) -> Nursery:
    """A nursery, not started, whose children have what builds and measurements import, and ``preload``."""
    return Nursery((*PRELOAD, *preload), cpus, env, idle=idle)


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


def _find_target(shop: Shop, nursery: Nursery) -> None:
    """Tell a shop of this machine's board what this machine is."""
    shop.target = targets.from_json(nursery.call("worker.host:host_target_in_child", None, timeout_s=60))
