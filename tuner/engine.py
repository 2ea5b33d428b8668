"""What the runner needs of the engine that builds and measures (``worker/engine.py``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kernels.target import Target
from worker.candidate import Candidate
from worker.outcome import Answer, ErrorKind, Outcome


class Engine(Protocol):
    """Builds and measures candidates of one workload; what has a higher priority goes first.

    Once ``cancelled`` is set, whatever has not ended soon ends as ``cancelled``; what had ended is kept.
    A job of a higher ``level`` goes first, then what has a higher ``priority``. Only boards that have all
    ``tags`` and this ``clock`` will do.
    """

    def capacity(self, target: Target, *, threads: int, tags: frozenset[str], clock: str) -> int:
        """How many boards can measure at once for such a job now."""

    async def evaluate(
        self,
        candidates: Sequence[Candidate],
        *,
        priority: float,
        cancelled: asyncio.Event,
        job: int,
        tags: frozenset[str],
        clock: str,
        level: int,
        on_outcome: Callable[[int, Outcome], None],
    ) -> list[Outcome]:
        """An outcome for each candidate, in their order; ``on_outcome`` may get them earlier, by place."""

    async def verify(
        self,
        candidates: Sequence[Candidate],
        *,
        priority: float,
        cancelled: asyncio.Event,
        job: int,
        tags: frozenset[str],
        clock: str,
        level: int,
    ) -> list[Outcome]:
        """Measure candidates again, interleaved and with more repeats."""

    async def beside(
        self,
        function: str,
        payload: dict[str, Any],
        target: Target,
        *,
        threads: int,
        tags: frozenset[str],
        clock: str,
        level: int,
        job: int,
        cancelled: asyncio.Event,
        timeout_s: float,
        memory_bytes: int,
    ) -> Answer | None:
        """Call ``module:function`` in a child on the cores of a leased board that is the machine it runs on.

        The payload gets ``lock``, the file that is locked while the board is used. None when the board is no
        such machine.
        """


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
