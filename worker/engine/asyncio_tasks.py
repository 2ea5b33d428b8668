"""Ending asyncio's tasks."""

from __future__ import annotations

import asyncio
from typing import Any


async def end(task: asyncio.Task[Any], again_s: float = 1.0) -> None:
    """Cancel a task, again each ``again_s``, until it has ended; how it ended is its own affair.

    Once is not always enough: ``asyncio.wait_for``, which Dask uses, loses a cancellation that comes together
    with what was waited for, up to Python 3.11.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=again_s)
