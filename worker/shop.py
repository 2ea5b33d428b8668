"""What a Dask worker process owns, and the tasks that run on it.

A build worker has a builder; a board's worker has the board as well. A task finds the shop through its
worker. Cancelling a Dask task does not stop it, so the engine tells the shop to give up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from distributed import Worker, get_worker

from kernels.target import Target
from worker.artifacts import ArtifactStore
from worker.build import Builder, Built
from worker.candidate import Candidate
from worker.cores import Cores
from worker.fleet.book import Check, Listing
from worker.fleet.health import check_board
from worker.measure import BoardHandle, MeasureOptions, measure
from worker.nursery import ChildError, Nursery
from worker.outcome import Outcome
from worker.peak import peak_gflops
from worker.relayout_time import relayout_seconds
from worker.session import lock_file
from worker.stream import write

PRELOAD = ("tvm", "tvm.rpc", "kernels.registry", "worker.build", "worker.measure_child", "worker.warm")
MAX_ARTIFACT_BYTES = 1 << 30
STOPS_KEPT = 1000
"""Tokens of what was stopped that a shop remembers: far more than can be under way."""
EMULATED_TIMES = 30
"""How much longer a candidate may take of a board that is emulated."""


@dataclass
class Shop:
    """Nurseries, artifacts and at most one board; ``absence`` says why that is not there while it is not.

    ``cores`` are this machine's, for a shop that builds and for one whose board is this machine itself; the
    children of its nursery use the board's.
    """

    nursery: Nursery
    state_dir: Path
    board: BoardHandle | None = None
    target: Target | None = None
    clock: str = "wall"
    threads: int = 1
    tags: tuple[str, ...] = ()
    absence: str = ""
    cores: Cores = field(default_factory=lambda: Cores([], []))
    stopped: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = ArtifactStore(self.state_dir / "artifacts")
        self.builder = Builder(self.nursery, self.store)

    @property
    def native(self) -> bool:
        """Whether the board is this machine."""
        return self.board is not None and bool(self.cores.board)

    def describe(self) -> Listing | None:
        """The board of this worker, or None."""
        if self.board is None or self.target is None:
            return None
        alive = self.board.alive()
        problem = "" if alive else self.absence
        return Listing(self.board.id, self.target, self.clock, self.threads, self.tags, alive, problem)


@dataclass(frozen=True)
class _Stopped:
    """Set once the engine has told the shop that whoever wanted this no longer does."""

    shop: Shop
    token: str

    def is_set(self) -> bool:
        return self.token in self.shop.stopped


@dataclass(frozen=True)
class Shipped:
    """A built candidate with its bytes, as board and builder may be on different machines."""

    built: Built
    data: bytes


class ShopWorker(Worker):
    """A Dask worker that owns a shop."""

    shop: Shop


def _my_shop() -> Shop:
    worker = get_worker()
    assert isinstance(worker, ShopWorker)  # the engine starts no others
    return worker.shop


def build_task(candidate: Candidate, timeout_s: float, token: str) -> Shipped | Outcome:
    """Build on this worker."""
    shop = _my_shop()
    stopped = _Stopped(shop, token)
    with shop.cores.building(stopped):
        built = shop.builder.build(candidate, timeout_s, stopped)
    return built if isinstance(built, Outcome) else Shipped(built, built.path.read_bytes())


def measure_task(
    parts: list[Shipped], options: MeasureOptions, rounds: int, token: str, topic: str
) -> list[Outcome]:
    """Measure on this worker's board; the outcomes in order, and each at once as an event of ``topic``."""
    shop, worker = _my_shop(), get_worker()
    assert shop.board is not None  # by the task's resource
    if shop.clock != "wall":
        options = replace(options, run_timeout_s=EMULATED_TIMES * options.run_timeout_s)
    batch: list[Built] = []
    for part in parts:
        _, path = shop.store.put(part.data)
        batch.append(replace(part.built, path=path))

    def report(index: int, outcome: Outcome) -> None:
        worker.log_event(topic, write(token, index, replace(outcome, clock=shop.clock)))

    stopped = _Stopped(shop, token)
    with shop.cores.measuring(stopped):
        outcomes = measure(
            shop.nursery,
            shop.board,
            batch,
            options,
            lock_dir=shop.state_dir,
            rounds=rounds,
            cancelled=stopped,
            on_outcome=report,
        )
    return [replace(outcome, clock=shop.clock) for outcome in outcomes]


def check_task() -> Check:
    """Run the reference kernel on this worker's board."""
    shop = _my_shop()
    with shop.cores.measuring():
        return check_board(shop)


def peak_task(target: Target, threads: int) -> float:
    """The peak of this worker's board."""
    shop = _my_shop()
    assert shop.board is not None  # by the task's resource
    with shop.cores.measuring():
        return peak_gflops(
            shop.nursery, shop.board, target, threads, store=shop.store, lock_dir=shop.state_dir
        )


def relayout_task(target: Target, threads: int) -> dict[str, list[tuple[float, float]]]:
    """What conversions between layouts take on this worker's board."""
    shop = _my_shop()
    assert shop.board is not None  # by the task's resource
    with shop.cores.measuring():
        return relayout_seconds(
            shop.nursery, shop.board, target, threads, store=shop.store, lock_dir=shop.state_dir
        )


def beside_task(
    function: str, payload: dict[str, Any], timeout_s: float, memory_bytes: int, token: str
) -> dict[str, Any] | None:
    """``{"result"}`` of a call in a child on the board's own cores, or ``{"problem"}``.

    None where the board is not the machine that this worker runs on.
    """
    shop = _my_shop()
    assert shop.board is not None  # by the task's resource
    if not shop.native:
        return None
    stopped = _Stopped(shop, token)
    try:
        with shop.cores.measuring(stopped):
            result = shop.nursery.call(
                function,
                {**payload, "lock": str(lock_file(shop.state_dir, shop.board.id))},
                timeout_s=timeout_s,
                memory_bytes=memory_bytes,
                on_message=lambda _: None,
                cancelled=stopped,
            )
    except ChildError as error:
        return {"problem": str(error) or type(error).__name__}
    return {"result": result}


def stop(token: str, dask_worker: Any) -> None:
    """Give up whatever runs, or is still to run, under ``token``."""
    stopped = dask_worker.shop.stopped
    stopped[token] = None
    if len(stopped) > STOPS_KEPT:
        del stopped[next(iter(stopped))]


def describe(dask_worker: Any) -> Listing | None:
    """The board of a worker, or None."""
    listing: Listing | None = dask_worker.shop.describe()
    return listing
