"""What the service needs of the engine (``worker/engine.py``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Protocol

from kernels.target import Target
from server.settings import Settings
from tuner import engine


class BoardStatus(Protocol):
    """A board as the engine sees it."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def target(self) -> str:
        """The name of the kind of machine it is."""

    @property
    def clock(self) -> str:
        """How its times come about."""

    @property
    def threads(self) -> int:
        """What a parallel kernel gets."""

    @property
    def state(self) -> str:
        """``idle``, ``measuring`` or ``offline``."""

    @property
    def trials(self) -> int:
        """Candidates measured."""

    @property
    def busy_s(self) -> float:
        """Seconds spent measuring."""

    @property
    def last_seen(self) -> datetime | None:
        """When it last answered."""


class Engine(engine.Engine, Protocol):
    """Builds and measures, and knows the boards."""

    def boards(self) -> Sequence[BoardStatus]:
        """All boards as they are now."""

    def targets(self) -> Mapping[str, Target]:
        """The boards' targets by name."""

    async def peak_gflops(self, target: Target, threads: int) -> float:
        """The measured peak of a board of ``target``."""


@asynccontextmanager
async def open_embedded(settings: Settings) -> AsyncIterator[Engine]:
    """The product's engine: an embedded or a shared cluster, and this machine as a board."""
    from worker.engine import Engine as WorkerEngine

    engine = WorkerEngine(settings.home_dir, scheduler=settings.scheduler)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.close()
