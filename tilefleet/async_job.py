"""A job as the client for asyncio gives it: what takes time is awaited."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import PrivateAttr

from server.jobs import schemas
from server.jobs.schemas import Task
from tilefleet.job import Job


class AsyncJob(schemas.Job):
    """A job and how far it was when it was asked for, for asyncio: ``await job.refresh()`` asks again.

    ``blocking`` is the same as a ``Job``, which shows itself in a notebook.
    """

    _blocking: Job = PrivateAttr()

    @classmethod
    def of(cls, job: Job) -> AsyncJob:
        """The same job."""
        made = cls.model_validate(job.model_dump())
        made._blocking = job
        return made

    @property
    def blocking(self) -> Job:
        """The job whose methods block."""
        return self._blocking

    async def refresh(self) -> AsyncJob:
        """The job as it is now."""
        return AsyncJob.of(await asyncio.to_thread(self._blocking.refresh))

    async def wait(self) -> AsyncJob:
        """Wait until the job has ended; the job as it then is, whatever its state."""
        events = self._blocking.client.events(self.id)
        # One at a time, so that a wait that is cancelled holds its thread no longer than to the next event.
        while await asyncio.to_thread(next, events, None) is not None:
            pass
        return await self.refresh()

    async def tasks(self) -> list[Task]:
        """Its tasks, one a distinct layer, with their best costs so far."""
        return await asyncio.to_thread(self._blocking.tasks)

    async def log(self, select: str = "best") -> list[str]:
        """Its tuning log as JSON lines: ``best``, ``top`` or ``all``."""
        return await asyncio.to_thread(self._blocking.log, select)

    async def to_frame(self) -> Any:
        """All its records so far as a ``pandas.DataFrame``: a row a trial, a column a fact (docs/log.md).

        Raises TilefleetError where pandas is not installed.
        """
        return await asyncio.to_thread(self._blocking.to_frame)
