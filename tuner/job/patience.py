"""Waiting for a database that is away: what was measured is kept until it takes it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from tuner.states import StoreAway

FIRST_S, LONGEST_S = 0.25, 5.0
"""The first pause between two tries, and the longest: each is twice the one before."""
T = TypeVar("T")
log = logging.getLogger(__name__)


async def patiently(
    call: Callable[..., T], *arguments: Any, waits: Callable[[float], None] = lambda seconds: None
) -> T:
    """What a method of the store returns, called in a thread until the database answers.

    ``waits`` is told of each pause before it.
    """
    pause_s = FIRST_S
    while True:
        try:
            return await asyncio.to_thread(call, *arguments)
        except StoreAway as reason:
            log.warning("tried again in %g s: %s", pause_s, reason)
        waits(pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_S)
