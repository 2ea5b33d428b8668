"""What the service needs of the engine (``worker/engine.py``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from kernels.target import Target
from server.settings import Settings
from tuner import engine
from worker.engine import BoardStatus
from worker.engine import Engine as WorkerEngine


class Engine(engine.Engine, Protocol):
    """Builds and measures, and knows the boards."""

    def boards(self) -> Sequence[BoardStatus]:
        """All boards as they were at the last refresh."""

    async def refresh(self) -> None:
        """See which boards there are now."""

    async def peak_gflops(self, target: Target, threads: int) -> float:
        """The measured peak of a board of ``target``."""


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[Engine]:
    """The product's engine: an embedded cluster with the boards of the settings, or a shared one."""
    state_dir = settings.home_dir / "engine"
    state_dir.mkdir(parents=True, exist_ok=True)
    async with WorkerEngine(
        state_dir,
        scheduler=settings.scheduler,
        boards=settings.plan,
    ) as running:
        yield running
