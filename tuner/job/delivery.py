"""The last word of a model's job: the model as its log builds it, checked and timed on a board."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from tuner.backend.check import Delivery
from tuner.job import placing
from tuner.job.doubts import take_over
from tuner.job.engine import Engine
from tuner.job.patience import patiently
from tuner.job.store import Store
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec
from tuner.states import GivenUp

MEMORY_BYTES = 16 << 30
TIMEOUT_S = 900.0


async def deliver(
    job: JobSpec, searches: Sequence[TaskSearch], engine: Engine, store: Store, cancelled: asyncio.Event
) -> str:
    """Build the job's model from its best configs, check it, time it, and keep that; what went wrong, if
    anything.

    A layer of which no config ran gets the analysis's, as in any build. What the build takes is not of the
    job's budget. Raises GivenUp when the model is wrong.
    """
    await take_over(job.id, searches, store)
    records = [record for search in searches for record in placing.best_of_layouts(search)]
    if job.model is None or not records or cancelled.is_set():
        return ""
    payload = await patiently(placing.payload_of, job, records, store)
    answer = await engine.beside(
        "tuner.job.delivery_child:deliver_in_child",
        payload,
        job.demand,
        cancelled=cancelled,
        timeout_s=TIMEOUT_S,
        memory_bytes=MEMORY_BYTES,
        anywhere=True,
    )
    if answer is None or cancelled.is_set():
        return ""
    if answer.problem:
        return f"the model was not built and measured: {answer.problem}"
    delivery = replace(Delivery.from_json(answer.result), in_place=in_place(searches))
    if not await patiently(store.delivered, job.id, delivery, answer.lease):
        return "the board was taken away while the built model was measured; `tilefleet resume` does it again"
    if delivery.check.wrong:
        raise GivenUp(f"the built model is wrong: {delivery.check.wrong}")
    return f"the built model was not checked: {delivery.check.skipped}" if delivery.check.skipped else ""


def in_place(searches: Sequence[TaskSearch]) -> float:
    """How many times as long as by themselves the best configs took in a model; 1 where none was timed."""
    timed = [
        (search.task.weight * best.in_place_s, search.task.weight * best.ranking_s)
        for search in searches
        if (best := search.best) is not None and best.in_place_s and best.ranking_s
    ]
    return sum(inside for inside, _ in timed) / sum(alone for _, alone in timed) if timed else 1.0
