"""What the runner needs of the engine that builds and measures (``worker/engine/engine.py``)."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from worker.batch import Batch
from worker.demand import Demand
from worker.outcome import Answer, ErrorKind, Outcome


class Engine(Protocol):
    """Builds and measures on the boards that meet a demand, the most urgent demand first."""

    def capacity(self, demand: Demand) -> int:
        """How many boards can measure at once for such a demand now."""

    async def evaluate(self, batch: Batch) -> list[Outcome]:
        """An outcome for each config of a batch, in their order."""

    async def beside(
        self,
        function: str,
        payload: dict[str, Any],
        demand: Demand,
        *,
        cancelled: asyncio.Event,
        timeout_s: float,
        memory_bytes: int,
        anywhere: bool = False,
    ) -> Answer | None:
        """Call ``module:function`` in a child on the cores of a leased board that is the machine it runs on.

        The payload gets ``lock``, the file that is locked while the board is used. None when the board is no
        such machine.
        """


async def evaluated(engine: Engine, batch: Batch) -> list[Outcome]:
    """An outcome for each config of ``batch``, whatever happens to the engine."""
    task = asyncio.ensure_future(engine.evaluate(batch))
    try:
        await asyncio.wait([task])
    finally:
        task.cancel()
    return outcomes_of(task, len(batch.configs))


def outcomes_of(finished: asyncio.Task[list[Outcome]], expected: int) -> list[Outcome]:
    """What the engine returned; a failure of the engine itself is one of each trial."""
    if finished.cancelled():
        return [Outcome(error=ErrorKind.CANCELLED, message="cancelled")] * expected
    error = finished.exception()
    if error is None and len(finished.result()) == expected:
        return finished.result()
    message = f"the engine failed: {type(error).__name__}: {error}"
    if error is None:
        message = f"the engine returned {len(finished.result())} outcomes for {expected} candidates"
    return [Outcome(error=ErrorKind.BOARD_LOST, message=message)] * expected
