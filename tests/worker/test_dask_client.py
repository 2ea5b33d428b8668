"""A scheduler that dies: which of a client's connections breaks first is chance."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from distributed.comm.core import CommClosedError

from worker.engine.dask_client import DaskClient
from worker.engine.scheduler_link import SchedulerGone

CUT = "in <TCP (closed) ConnectionPool.gather>: Stream is closed"


class Cut:
    """A client that is believed to be there, and its future; nothing comes from its scheduler any more."""

    client: Cut
    status = "pending"

    def __init__(self, error: Exception) -> None:
        self.client, self.scheduler_comm, self._error = self, self, error

    def closed(self) -> bool:
        return False

    def submit(self, *_: Any, **__: Any) -> Cut:
        return self

    async def run(self, *_: Any, **__: Any) -> None:
        raise self._error

    def __await__(self) -> Any:
        return self.run().__await__()

    def done(self) -> bool:
        return True


async def _no() -> None:
    pass


def asked(error: Exception) -> list[Coroutine[Any, Any, Any]]:
    """All that is asked of such a client."""
    dask = DaskClient("tcp://127.0.0.1:1", lambda: None, _no)
    dask._link._client = dask._link._comm = Cut(error)
    dask._addresses["pi"], dask._gone["a"] = "a", asyncio.Event()
    return [
        dask.listings(),
        dask.build(print, token="t", priority=0.0, stops=[]),
        dask.run_on("pi", print, token="t"),
    ]


async def test_a_connection_that_breaks_first_says_that_the_scheduler_is_gone() -> None:
    for question in asked(CommClosedError(CUT)):
        with pytest.raises(SchedulerGone, match="was cut"):
            await question


async def test_another_error_is_the_task_s_own() -> None:
    for question in asked(ZeroDivisionError("x")):
        with pytest.raises(ZeroDivisionError):
            await question
