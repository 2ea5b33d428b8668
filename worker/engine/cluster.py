"""What runs in this process: the boards of a fleet, and in the embedded cluster scheduler and workers too."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import dask
from distributed import Scheduler

import worker.engine.steady  # noqa: F401  # of each process that Dask runs in
from kernels import target as targets
from kernels.target import Target
from worker.children.nursery import Nursery
from worker.engine.asyncio_tasks import end
from worker.engine.dask_worker import PRELOAD, ContextWorker
from worker.engine.worker_context import WorkerContext
from worker.fleet.drivers.base import BoardError, Driver, Tokened
from worker.fleet.drivers.gateway import Gateway
from worker.fleet.drivers.spec import BoardSpec, Site, split_address
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


@dataclass(frozen=True)
class Changes:
    """What became of a fleet: names of boards."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    """Those that have other tokens and nothing else."""


@dataclass(eq=False)
class _Post:
    """A board of the fleet: what the file says of it, and what was made of that."""

    spec: BoardSpec
    tokens: tuple[str, ...]
    known_target: Target | None
    driver: Driver
    context: WorkerContext
    stack: AsyncExitStack
    """What has to end with it."""
    starts: list[Callable[[], Any]]
    """What is to be done before it can be started; each blocks."""


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
        for each in workers:
            await self._stack.enter_async_context(each)
        self.address = str(scheduler.address)
        self._stack.push_async_callback(self._boards.close)
        await self._boards.join(partial(make_worker, self.address, "board", build=False))


class FleetBoards:
    """The boards of a fleet, each with the context of its worker; a context manager.

    The boards that run here must start, or starting fails. The others need not be there: they are offline
    until they are, and those that could not be set up are tried again every ``retry_s``. Of ``fleet`` the
    host is this machine itself, on the board's part of ``cores``.

    The fleet may become another one: boards come, go and change, each once nobody has a lease of it.
    """

    def __init__(
        self,
        state_dir: Path,
        nursery: Nursery,
        fleet: Fleet,
        cores: Cores,
        *,
        retry_s: float = USUAL.retry_s,
    ) -> None:
        self._retry_s = retry_s
        self._state_dir, self._nursery, self._fleet = state_dir, nursery, fleet
        self._cores = cores
        self._site = Site(state_dir, cores.board, cores.builds, Gateway(*split_address(fleet.listen)))
        self._posts: dict[str, _Post] = {}
        """Those of the fleet."""
        self._open: list[_Post] = []
        """Those that were started, also while they are on their way out."""
        self._moves: dict[str, asyncio.Task[None]] = {}
        """What makes another board of each that has changed."""
        self._join: Callable[[WorkerContext], Any] | None = None

    @property
    def contexts(self) -> list[WorkerContext]:
        """What the worker of each board owns, in the order of the fleet."""
        return [post.context for post in self._posts.values()]

    async def __aenter__(self) -> Self:
        """Start all boards; raises EngineError, BoardError or NurseryError."""
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give all boards up; a second time does nothing."""
        for move in self._moves.values():
            await end(move)
        while self._open:
            await self._open.pop().stack.aclose()

    async def join(self, make: Callable[[WorkerContext], Any]) -> None:
        """Have a Dask worker, which ``make`` makes, for each board from now on."""
        self._join = make
        for post in self._open:
            await post.stack.enter_async_context(make(post.context))

    async def reload(
        self, fleet: Fleet, leave: Callable[[str], Awaitable[None]], forget: Callable[[str], Awaitable[None]]
    ) -> Changes:
        """Become this fleet; boards that go or change do so in the background.

        ``leave`` waits until nobody has a board and nobody will, ``forget`` is called when it is gone.
        Raises EngineError or BoardError, and then nothing has changed.
        """
        threads = [each.host.threads if each.host else 0 for each in (self._fleet, fleet)]
        if threads[0] != threads[1]:
            raise EngineError(
                f"the board of kind host has {threads[0]} threads, {threads[1]} in the file (0: there is none"
                "); builds have the other cores, so this needs a stop and a start"
            )
        if fleet.listen != self._fleet.listen:
            raise EngineError("[gateway] listen has changed, which needs a stop and a start")
        known = fleet.known_targets
        posts: dict[str, _Post] = {}
        tokens: dict[str, tuple[str, ...]] = {}
        for spec in fleet.boards:
            old = self._posts.get(spec.id)
            if old is None or old.spec != spec or old.known_target != known.get(old.driver.target):
                # Off the loop, as a disk may hang.
                posts[spec.id] = await asyncio.to_thread(self._post, spec, fleet)
                continue
            posts[spec.id], now = old, await asyncio.to_thread(spec.tokens)
            if old.tokens != now:
                tokens[spec.id] = now
        before, self._posts, self._fleet = self._posts, posts, fleet
        for id, now in tokens.items():
            posts[id].tokens, driver = now, posts[id].context.board
            if isinstance(driver, Tokened):
                await asyncio.to_thread(driver.retoken, now)
        moved = [id for id in {**before, **posts} if before.get(id) is not posts.get(id)]
        for id in moved:
            last = self._moves.get(id)
            move = self._move(id, before.get(id), posts.get(id), last, leave, forget)
            self._moves[id] = asyncio.create_task(move, name=f"change of board {id}")
        return Changes(
            added=[id for id in moved if id not in before],
            removed=[id for id in moved if id not in posts],
            changed=[id for id in moved if id in before and id in posts],
            tokens=list(tokens),
        )

    async def _move(
        self,
        id: str,
        old: _Post | None,
        new: _Post | None,
        last: asyncio.Task[None] | None,
        leave: Callable[[str], Awaitable[None]],
        forget: Callable[[str], Awaitable[None]],
    ) -> None:
        if last is not None:
            await asyncio.wait([last])
        if old is not None and old in self._open:
            await leave(id)
            self._open.remove(old)
            await old.stack.aclose()
            await forget(id)
        if new is None or self._posts.get(id) is not new:  # the fleet has changed again
            return
        self._open.append(new)
        try:
            for start in new.starts:
                await asyncio.to_thread(start)
        except Exception:
            log.exception("board %s cannot be started", id)
            return
        self._begin(new)
        if self._join is not None:
            await new.stack.enter_async_context(self._join(new.context))

    async def _start(self) -> None:
        starts: list[Callable[[], Any]] = []
        for spec in self._fleet.boards:
            self._posts[spec.id] = self._post(spec, self._fleet)
        for post in self._posts.values():
            self._open.append(post)
            starts += post.starts
            if post.spec.local:
                starts.append(post.driver.start)
            else:
                self._begin(post)
        phases.info("starting boards: %s", ", ".join(self._posts) or "none")
        await asyncio.gather(*map(asyncio.to_thread, starts))

    def _begin(self, post: _Post) -> None:
        """Start a board, now or when that can be."""
        starting = asyncio.create_task(_keep_starting(post.driver, post.context, self._retry_s))
        post.stack.push_async_callback(end, starting)

    def _post(self, spec: BoardSpec, fleet: Fleet) -> _Post:
        """What drives a board, not started; raises EngineError or BoardError."""
        if spec.local and (problem := spec.why_not()):
            raise EngineError(f"board {spec.id}: {problem}; or leave it out of the boards")
        driver, tokens = spec.driver(self._site), spec.tokens()
        target = fleet.known_targets.get(driver.target)
        stack = AsyncExitStack()
        stack.callback(driver.stop)
        nursery, starts = self._nursery, list[Callable[[], Any]]()
        native = spec is fleet.host
        if native:  # what is measured on the board's own cores runs there
            nursery = self._nursery.on(self._cores.board)
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
        if native:
            context.cores = self._cores
            starts = [partial(_find_target, context, self._nursery)]
        return _Post(spec, tokens, target, driver, context, stack, starts)


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
