"""What a Dask worker process owns: a builder, and on a board's worker the board as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kernels.target import Target
from worker.build.artifacts import ArtifactStore
from worker.build.build import Builder
from worker.children.nursery import Nursery
from worker.fleet.book import Listing
from worker.fleet.drivers.agent_process import AgentBoard
from worker.fleet.drivers.base import Driver
from worker.measure.cores import Cores


@dataclass
class WorkerContext:
    """Nurseries, artifacts and at most one board; ``absence`` says why that is not there while it is not,
    ``kind`` and ``where`` what the fleet file says of it.

    ``cores`` are this machine's, for a worker that builds and for one whose board is this machine itself;
    the children of its nursery use the board's.
    """

    nursery: Nursery
    state_dir: Path
    board: Driver | None = None
    target: Target | None = None
    tags: tuple[str, ...] = ()
    absence: str = ""
    kind: str = ""
    where: str = ""
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
        clock, threads = self.board.clock, self.board.threads
        started = isinstance(self.board, AgentBoard)
        return Listing(
            self.board.id,
            self.target,
            clock,
            threads,
            self.tags,
            alive,
            problem,
            started,
            self.kind,
            self.where,
        )


@dataclass(frozen=True)
class Stopped:
    """Set once the engine has told the worker that whoever wanted this no longer does, or nobody can hear of
    it any more since the worker has ``left`` the scheduler."""

    context: WorkerContext
    token: str
    left: Callable[[], bool]

    def is_set(self) -> bool:
        """Whether it is so by now."""
        return self.token in self.context.stopped or self.left()
