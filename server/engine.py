"""What the service needs of the engine (``worker/engine/engine.py``)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from server import ownership
from server.settings import Settings
from tuner.job import engine
from worker.children.nursery import Nursery
from worker.demand import Demand
from worker.engine.cluster import Changes
from worker.engine.engine import Engine as WorkerEngine
from worker.fleet.book import Book
from worker.fleet.fleet_file import Fleet as FleetPlan
from worker.fleet.matching import Place
from worker.fleet.status import BoardStatus
from worker.outcome import Fact


class Fleet(Protocol):
    """What the service needs of the dispatcher (``worker/fleet/dispatcher.py``)."""

    on_change: Callable[[BoardStatus], None]
    """Called in the event loop with a board of which something has changed."""

    def waiting(self) -> Sequence[Place]:
        """All requests that wait for a board."""

    async def drain(self, board: str, reason: str) -> None:
        """Let the board's present lease end, then take it out of service."""

    async def park(self, board: str, reason: str) -> None:
        """Take the board out of service at once."""

    async def put_back(self, board: str, reason: str) -> None:
        """Bring the board back into service, if it passes its health check."""

    async def retire(self, board: str, reason: str) -> None:
        """Take the board out of service for good."""


class Engine(engine.Engine, Protocol):
    """Builds and measures, and knows the boards."""

    @property
    def dispatcher(self) -> Fleet:
        """Who gives boards to those who wait."""

    @property
    def nursery(self) -> Nursery:
        """Where builds run and models are read: off the cores of the host's board."""

    @property
    def away(self) -> str:
        """Says that the scheduler does not answer; empty while it does."""

    def boards(self) -> Sequence[BoardStatus]:
        """All boards as they were at the last refresh."""

    async def refresh(self) -> None:
        """See which boards there are now."""

    async def reload(self, fleet: FleetPlan) -> Changes:
        """Become another fleet; raises EngineError or BoardError, and then nothing has changed."""

    async def peak_gflops(self, demand: Demand) -> Fact:
        """The measured peak of a board that meets a demand; several may ask at once."""

    async def bandwidth_gbs(self, demand: Demand) -> Fact:
        """Billions of bytes a second that such a board's cores read from memory; as ``peak_gflops``."""

    async def relayout_seconds(self, demand: Demand) -> Fact:
        """Measured conversions between layouts, [elements, seconds] by ``from>to``; as ``peak_gflops``."""


@asynccontextmanager
async def open_engine(settings: Settings, book: Book) -> AsyncIterator[Engine]:
    """The product's engine: an embedded cluster with the boards of the settings, or a shared one."""
    state_dir = settings.home_dir / "engine"
    state_dir.mkdir(parents=True, exist_ok=True)
    async with WorkerEngine(
        state_dir,
        scheduler=settings.scheduler,
        boards=settings.plan,
        preload=("compiler.intake.extract", "compiler.intake.trial", "tuner.explain.explain"),
        book=book,
        holder=ownership.me(),
        times=settings.times,
    ) as running:
        yield running
