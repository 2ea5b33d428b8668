"""The connection to a Dask scheduler; when it is lost, another one is made as soon as a scheduler answers.

Dask's own client comes back within its timeout or never, and then without what it was subscribed to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

from distributed import Client
from distributed.comm.core import CommClosedError

from worker.engine.asyncio_tasks import end

ANSWER_S = 10.0
"""A scheduler that has not answered by then is away."""
PAUSES_S = (0.25, 8.0)
"""How long a scheduler that is away is left alone at first, and at the most; twice as long each time."""
log = logging.getLogger(__name__)


class WorkerGone(RuntimeError):
    """The worker, or the scheduler, went away under a task; the message says which."""


class SchedulerGone(WorkerGone):
    """The scheduler went away: no worker, board or candidate is to blame, and it may come back."""


class SchedulerLink:
    """One client of the scheduler at ``address`` after the other, all of them subscribed to ``topics``.

    ``on_lost`` is called once when the connection was lost, and before another one is tried; ``on_joined``
    when there is another one.
    """

    def __init__(
        self,
        address: str,
        topics: Mapping[str, Callable[[Any], None]],
        on_lost: Callable[[], Awaitable[None]],
        on_joined: Callable[[], None],
    ) -> None:
        self._address, self._topics = address, topics
        self._on_lost, self._on_joined = on_lost, on_joined
        self._client: Any = None
        self._comm: Any = None
        self._joined, self._missed = asyncio.Event(), asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect; raises OSError when no scheduler answers."""
        await self._join()
        self._keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """End the connection."""
        if self._keeper is not None:
            await end(self._keeper)
        if self._client is not None:
            await self._client.close()

    @property
    def away(self) -> str:
        """Says that the scheduler is away; empty while it is there."""
        comm = self._comm
        if comm is not None and comm is self._client.scheduler_comm and not comm.closed():
            return ""
        self._joined.clear()
        self._missed.set()
        return f"the scheduler {self._address} does not answer"

    def gone(self, error: BaseException | None) -> str:
        """Says that the scheduler is away, also where ``error`` is the first sign of it; else empty.

        A client has several connections to its scheduler, and one of them is the first to break.
        """
        cut = f"the connection to the scheduler {self._address} was cut: {error}"
        return self.away or (cut if isinstance(error, CommClosedError) else "")

    @property
    def client(self) -> Any:
        """The client of now; raises SchedulerGone."""
        if away := self.away:
            raise SchedulerGone(away)
        return self._client

    async def back(self) -> None:
        """Wait until a scheduler is there."""
        while self.away:
            await self._joined.wait()

    async def _join(self) -> None:
        make: Any = Client  # untyped in distributed
        async with AsyncExitStack() as unless_joined:
            client = make(self._address, asynchronous=True, set_as_default=False, timeout=ANSWER_S)
            unless_joined.push_async_callback(client.close)
            await client
            unless_joined.pop_all()
        self._client, self._comm = client, client.scheduler_comm
        for topic, handler in self._topics.items():
            client.subscribe_topic(topic, handler)
        self._missed.clear()
        self._joined.set()

    async def _keep(self) -> None:
        while True:
            await self._missed.wait()
            log.warning("%s; it is tried until it does", self.away)
            self._comm = None
            try:
                await self._on_lost()
            except Exception:
                log.exception("that the scheduler is away cannot be kept")
            with suppress(Exception):
                await self._client.close()
            pause_s, longest_s = PAUSES_S
            while not self._joined.is_set():
                try:
                    await self._join()
                except Exception as error:
                    log.info("the scheduler is still away: %s", error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, longest_s)
            log.warning("the scheduler %s is back", self._address)
            self._on_joined()
