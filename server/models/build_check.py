"""A build beside its model's definition, on a board of the fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from kernels import target as targets
from kernels.target import Target
from server.engine import Engine
from server.http.problems import Problem
from server.models.schemas import BuildCheck, BuildRequest
from tuner.backend.check import Delivery
from tuner.job.delivery import MEMORY_BYTES, TIMEOUT_S
from worker.demand import Demand
from worker.engine.asyncio_tasks import end

_LOOK_S = 1.0


async def check_build(
    engine: Engine, model: Path, target: Target, request: BuildRequest, gone: Callable[[], Awaitable[bool]]
) -> BuildCheck:
    """Build the model as asked, and run it on a leased board; ends early once who asked has ``gone``.

    Raises the problem that no board came to an answer.
    """
    cancelled = asyncio.Event()
    payload = {
        **request.model_dump(mode="json", exclude={"target"}),
        "model": str(model),
        "target": targets.to_json(target),
    }
    watch = asyncio.create_task(_watch(gone, cancelled))
    try:
        answer = await engine.beside(
            "tuner.job.delivery_child:deliver_in_child",
            payload,
            Demand(target, request.threads),
            cancelled=cancelled,
            timeout_s=TIMEOUT_S,
            memory_bytes=MEMORY_BYTES,
            anywhere=True,
        )
    finally:
        await end(watch)
    if answer is None or answer.problem:
        raise Problem(409, answer.problem if answer else "no board can run it")
    delivery = Delivery.from_json(answer.result)
    return BuildCheck.model_validate({**delivery.check.to_json(), "sha256": delivery.sha256})


async def _watch(gone: Callable[[], Awaitable[bool]], cancelled: asyncio.Event) -> None:
    while not await gone():
        await asyncio.sleep(_LOOK_S)
    cancelled.set()
