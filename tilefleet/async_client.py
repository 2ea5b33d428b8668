"""The client for asyncio: each method of ``Client`` to be awaited, each of its iterators ``async for``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import update_wrapper
from types import TracebackType
from typing import Concatenate, ParamSpec, TypeVar

from tilefleet.async_job import AsyncJob
from tilefleet.client import Client
from tilefleet.job import Job

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(
    method: Callable[Concatenate[Client, P], R],
) -> Callable[Concatenate[AsyncClient, P], Awaitable[R]]:
    async def called(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.client, *args, **kwargs)

    update_wrapper(called, method)
    return called


def _iterated(
    method: Callable[Concatenate[Client, P], Iterator[R]],
) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[R]]:
    async def called(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
        items, end = method(self.client, *args, **kwargs), object()
        while (item := await asyncio.to_thread(next, items, end)) is not end:
            yield item  # type: ignore[misc]  # no end

    update_wrapper(called, method)
    return called


def _job(
    method: Callable[Concatenate[Client, P], Job],
) -> Callable[Concatenate[AsyncClient, P], Awaitable[AsyncJob]]:
    async def called(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncJob:
        return AsyncJob.of(await asyncio.to_thread(method, self.client, *args, **kwargs))

    update_wrapper(called, method)
    return called


def _jobs(
    method: Callable[Concatenate[Client, P], Iterator[Job]],
) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[AsyncJob]]:
    iterated = _iterated(method)

    async def called(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[AsyncJob]:
        async for job in iterated(self, *args, **kwargs):
            yield AsyncJob.of(job)

    update_wrapper(called, method)
    return called


class AsyncClient:
    """Talks to one Tilefleet server without blocking the event loop: a thread of its pool waits instead.

    It has the methods of ``Client`` with the same arguments and results, and raises the same errors. Use it
    as an asynchronous context manager, or call ``close``. Its jobs are ``AsyncJob``, to be awaited as well.
    """

    def __init__(self, url: str | None = None, timeout_s: float = 60.0) -> None:
        """``url`` and ``timeout_s`` are as those of ``Client``."""
        self.client = Client(url, timeout_s)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()

    close = _awaited(Client.close)
    upload = _awaited(Client.upload)
    upload_for = _awaited(Client.upload_for)
    models = _iterated(Client.models)
    model = _awaited(Client.model)
    workloads = _awaited(Client.workloads)
    check_module = _awaited(Client.check_module)
    profile = _awaited(Client.profile)
    submit = _job(Client.submit)
    jobs = _jobs(Client.jobs)
    job = _job(Client.job)
    cancel = _job(Client.cancel)
    resume = _job(Client.resume)
    resume_all = _awaited(Client.resume_all)
    change_job = _job(Client.change_job)
    delete_job = _awaited(Client.delete_job)
    tasks = _awaited(Client.tasks)
    events = _iterated(Client.events)
    job_log = _iterated(Client.job_log)
    target_log = _iterated(Client.target_log)
    targets = _awaited(Client.targets)
    target = _awaited(Client.target)
    bests = _iterated(Client.bests)
    records = _iterated(Client.records)
    import_log = _awaited(Client.import_log)
    best = _awaited(Client.best)
    baselines = _awaited(Client.baselines)
    put_baseline = _awaited(Client.put_baseline)
    forget_imported = _awaited(Client.forget_imported)
    forget = _awaited(Client.forget)
    damaged = _iterated(Client.damaged)
    boards = _awaited(Client.boards)
    board = _awaited(Client.board)
    report = _awaited(Client.report)
    board_history = _awaited(Client.board_history)
    withdraw = _awaited(Client.withdraw)
    reload_fleet = _awaited(Client.reload_fleet)
    change_board = _awaited(Client.change_board)
    version = _awaited(Client.version)
    health = _awaited(Client.health)
