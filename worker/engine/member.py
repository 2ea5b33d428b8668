"""A Dask worker that joins its scheduler again when that was lost: Dask's own workers end then."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from worker.engine.asyncio_tasks import end

PAUSES_S = (0.5, 15.0)
"""Before a worker that was lost soon after it had joined joins again: at first, and at the most; twice as
long each time. While nobody answers at the scheduler's address, Dask pauses by itself."""
log = logging.getLogger(__name__)


class Member:
    """One worker after the other, each made by ``make``; a context manager, entered when the first has
    joined."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self._name, self._make = name, make
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Wait for the scheduler, without end."""
        worker = self._make()
        try:
            await worker
        except BaseException:
            await worker.close()
            raise
        self._keeper = asyncio.create_task(self._keep(worker))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keeper is not None:
            await end(self._keeper)

    async def _keep(self, first: Any) -> None:
        pause_s, longest_s = PAUSES_S
        worker = first
        while True:
            joined = time.monotonic()
            try:
                worker = worker or self._make()
                await worker
                joined = time.monotonic()
                log.info("worker %s has joined", self._name)
                await worker.finished()
                log.warning("worker %s has lost the scheduler and joins it again", self._name)
            except Exception:  # a full disk, say
                log.exception("worker %s cannot join", self._name)
            finally:
                if worker is not None:
                    await worker.close()
            worker = None
            if time.monotonic() - joined > longest_s:
                pause_s = PAUSES_S[0]
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)
