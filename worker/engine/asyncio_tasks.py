"""Ending asyncio's tasks, and waiting for one of two."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def end(task: asyncio.Task[Any], again_s: float = 1.0) -> None:
    """Cancel a task, again each ``again_s``, until it has ended; how it ended is its own affair.

    Once is not always enough: ``asyncio.wait_for``, which Dask uses, loses a cancellation that comes together
    with what was waited for, up to Python 3.11.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=again_s)


async def either(one: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any]) -> None:
    """Until one of two has ended; the other is given up."""
    tasks = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            await end(task)
