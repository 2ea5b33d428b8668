"""Work on a leased board that lasts as long as the one who asked waits for it."""

from __future__ import annotations

import asyncio
from typing import Any

from server.engine import Engine
from server.http.gone import Gone, watched
from server.http.problems import Problem
from tuner.job.delivery import MEMORY_BYTES, TIMEOUT_S
from worker.demand import Demand


async def beside_board(
    engine: Engine,
    function: str,
    payload: dict[str, Any],
    demand: Demand,
    gone: Gone,
) -> Any:
    """What ``module:function`` answers in a child beside a board; ends early once who asked has ``gone``.

    Raises the 409 problem that no board came to an answer.
    """
    async with watched(gone, asyncio.Event()) as cancelled:
        answer = await engine.beside(
            function,
            payload,
            demand,
            cancelled=cancelled,
            timeout_s=TIMEOUT_S,
            memory_bytes=MEMORY_BYTES,
            anywhere=True,
        )
    if answer is None or answer.problem:
        raise Problem(409, answer.problem if answer else "no board can run it")
    return answer.result
