"""An engine that measures nothing: costs follow from the config, faults are scripted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from kernels.target import CATALOGUE, Target
from server.settings import Settings
from worker.candidate import Candidate
from worker.engine import BoardStatus
from worker.outcome import ErrorKind, Outcome

HOST = replace(CATALOGUE["x86-avx2"], name="host", cpu="x86-64-v3-here")


def cost(candidate: Candidate) -> float:
    """Between 1 and 2 ms, always the same for the same candidate."""
    return 1e-3 * (1 + int(candidate.config.key, 16) % 1000 / 1000)


@dataclass
class FakeEngine:
    """``fault`` says how a candidate fails, or None; ``gate`` holds every measurement until it is set."""

    fault: Callable[[Candidate], ErrorKind | None] = lambda _: None
    delay_s: float = 0.01
    board: BoardStatus = field(
        default_factory=lambda: BoardStatus("host", HOST, "wall", threads=2, busy_s=1.5, last_seen=1e9)
    )
    measured: list[Candidate] = field(default_factory=list)
    peaks: int = 0

    def boards(self) -> Sequence[BoardStatus]:
        return [self.board]

    async def refresh(self) -> None:
        self.board.last_seen = time.time()

    async def peak_gflops(self, target: Target, threads: int) -> float:
        self.peaks += 1
        return 100.0 * threads

    async def evaluate(
        self, candidates: Sequence[Candidate], *, priority: float, cancelled: asyncio.Event
    ) -> list[Outcome]:
        outcomes = []
        for candidate in candidates:
            await asyncio.sleep(self.delay_s)
            if cancelled.is_set():
                outcomes.append(Outcome(error=ErrorKind.CANCELLED))
                continue
            self.measured.append(candidate)
            error = self.fault(candidate)
            seconds = None if error else cost(candidate)
            outcomes.append(
                Outcome(seconds, (), error=error, message=f"it was {error}" if error else "", board="host")
            )
        return outcomes

    async def verify(
        self, candidates: Sequence[Candidate], *, priority: float, cancelled: asyncio.Event
    ) -> list[Outcome]:
        return [Outcome(cost(candidate) * 1.01, board="host") for candidate in candidates]

    @asynccontextmanager
    async def open(self, settings: Settings) -> AsyncIterator[FakeEngine]:
        yield self
