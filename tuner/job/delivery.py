"""The last word of a model's job: the model as its log builds it, checked and raced beside the untuned."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from tuner.backend.check import Delivery
from tuner.job import placing
from tuner.job.doubts import take_over
from tuner.job.engine import Engine
from tuner.job.incumbent import Measure, prefer
from tuner.job.patience import patiently
from tuner.job.store import Store
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec
from tuner.states import GivenUp

MEMORY_BYTES = 16 << 30
TIMEOUT_S = 900.0
RACE_SHARE, RACE_S, USUAL_RACE_S = 0.1, 20.0, 5.0
"""Such a share of the budget's seconds a race goes on to make the gain surer, and so long at most; and where
the budget has no seconds."""
ATTEMPTS = 3
"""How often a model is built and raced: each time that it loses, the untuned one's configs are put first."""


async def deliver(
    job: JobSpec,
    searches: Sequence[TaskSearch],
    engine: Engine,
    store: Store,
    cancelled: asyncio.Event,
    measure: Measure,
) -> tuple[list[TaskSearch], str]:
    """Build the job's model from its best configs, check it, race it beside the untuned one, and keep what
    came of it; whose best may be another, and what there is to say.

    A model that loses the race is not delivered: the untuned one's configs rank first, and that is built and
    raced again. A layer of which no config ran gets the analysis's, as in any build. What all this takes is
    not of the job's budget. Raises GivenUp when the model is wrong.
    """
    changed = dict.fromkeys(await take_over(job.id, searches, store))
    note, lost = "", ""
    seconds = job.budget.seconds
    race_s = USUAL_RACE_S if seconds is None else min(RACE_S, RACE_SHARE * seconds)
    for attempt in range(ATTEMPTS):
        records = [record for search in searches for record in placing.for_build(search)]
        if job.model is None or not records or cancelled.is_set():
            break
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
        delivery = replace(Delivery.from_json(answer.result), in_place=in_place(searches))
        if not await patiently(store.delivered, job.id, delivery, answer.lease):
            note = "the board was lost while the model was measured; `tilefleet resume` does it again"
            break
        if delivery.check.wrong:
            raise GivenUp(f"the built model is wrong: {delivery.check.wrong}")
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
    return list(changed), "; ".join(filter(None, (lost, note)))


def in_place(searches: Sequence[TaskSearch]) -> float:
    """How many times as long as by themselves the best configs took in a model; 1 where none was timed."""
    timed = [
        (search.task.weight * best.in_place_s, search.task.weight * best.ranking_s)
        for search in searches
        if (best := search.best) is not None and best.in_place_s and best.ranking_s
    ]
    return sum(inside for inside, _ in timed) / sum(alone for _, alone in timed) if timed else 1.0
