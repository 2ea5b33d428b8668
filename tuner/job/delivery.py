"""The last word of a model's job: the model as its log builds it, checked and raced beside the untuned."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tuner.backend.check import Delivery
from tuner.job import placing
from tuner.job.doubts import take_over
from tuner.job.engine import Engine
from tuner.job.incumbent import Measure, prefer
from tuner.job.patience import patiently
from tuner.job.reserve import Deliveries
from tuner.job.store import Store
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec
from tuner.states import GivenUp

MEMORY_BYTES = 16 << 30
TIMEOUT_S = 900.0
RACE_S, LEAST_RACE_S = 30.0, 0.001
"""So long after the start of a delivery its race may go on to make the gain surer, at most, and where no
seconds are left."""
ATTEMPTS = 3
"""How often a model is built and raced: each time that it loses, the untuned one's configs are put first."""


async def deliver(
    job: JobSpec,
    searches: Sequence[TaskSearch],
    engine: Engine,
    store: Store,
    cancelled: asyncio.Event,
    measure: Measure,
    left: Callable[[], float],
    deliveries: Deliveries,
) -> tuple[list[TaskSearch], str, bool]:
    """Build the job's model by its log, check it, race it beside the untuned one, and keep what
    came of it; whose best may be another, what there is to say, and whether there is a model.

    A model that loses the race is not delivered: the untuned one's configs rank first, and that is built and
    raced again. A layer of which no config ran gets the analysis's, as in any build; where none ran at all
    that is the untuned model. ``left`` are the budget's seconds, of which the race has what is left when it
    begins. What it takes is told to ``deliveries``. Raises GivenUp when the model is wrong.
    """
    changed = dict.fromkeys(await take_over(job.id, searches, store))
    note, lost, delivered = "", "", False
    for attempt in range(ATTEMPTS):
        if job.model is None or cancelled.is_set():
            break
        race_s = max(LEAST_RACE_S, min(RACE_S, left()))
        began = time.monotonic()
        records = await patiently(store.log, job.id)
        payload = await patiently(placing.payload_of, job, records, store)
        answer = await engine.beside(
            "tuner.job.delivery_child:deliver_in_child",
            payload | {"race": race_s},
            job.demand,
            cancelled=cancelled,
            timeout_s=TIMEOUT_S,
            memory_bytes=MEMORY_BYTES,
            anywhere=True,
        )
        if answer is None or cancelled.is_set():
            break
        if answer.problem:
            note = f"the model was not built and measured: {answer.problem}"
            break
        deliveries.observe(job, max(0.0, time.monotonic() - began - answer.result.get("surer_s", 0.0)))
        delivery = replace(Delivery.from_json(answer.result), in_place=in_place(searches))
        if not await patiently(store.delivered, job.id, delivery, answer.lease):
            note = "the board was lost while the model was measured; `tilefleet resume` does it again"
            break
        if delivery.check.wrong:
            raise GivenUp(f"the built model is wrong: {delivery.check.wrong}")
        delivered = True
        verdict, skipped = delivery.verdict, delivery.check.skipped
        note = f"the built model was not checked: {skipped}" if skipped else ""
        if verdict is None or not verdict.lost or attempt == ATTEMPTS - 1:
            break
        lost = lost or (
            f"the untuned model won with {1e3 * verdict.untuned_s:.3g} ms, the tuned one took "
            f"{1e3 * verdict.delivered_s:.3g} ms: the untuned configs rank first now"
        )
        configs = answer.result["untuned"]
        changed |= dict.fromkeys(
            await prefer(configs, searches, 1 / verdict.gain, attempt, measure, store, answer.lease)
        )
    small = ""
    if delivered and not any(search.records for search in searches) and job.budget.seconds is not None:
        small = (
            f"a budget of {job.budget.seconds:g} s is too small for trials beside the build and its runs, so "
            f"the untuned model is delivered: give {deliveries.needed_s(job)} s or more"
        )
    return list(changed), "; ".join(filter(None, (small, lost, note))), delivered


def in_place(searches: Sequence[TaskSearch]) -> float:
    """How many times as long as by themselves the best configs took in a model; 1 where none was timed."""
    timed = [
        (search.task.weight * best.in_place_s, search.task.weight * best.ranking_s)
        for search in searches
        if (best := search.best) is not None and best.in_place_s and best.ranking_s
    ]
    return sum(inside for inside, _ in timed) / sum(alone for _, alone in timed) if timed else 1.0
