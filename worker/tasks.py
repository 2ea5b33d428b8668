"""Ending asyncio's tasks."""

from __future__ import annotations

import asyncio
from typing import Any

_AGAIN_S = 1.0


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task until it has ended; how it ended is its own affair.

    Once is not always enough: ``asyncio.wait_for``, which Dask uses, loses a cancellation that comes together
    with what was waited for, up to Python 3.11.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=_AGAIN_S)
