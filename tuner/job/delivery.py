"""The last word of a model's job: the model as its log builds it, checked and raced beside the untuned."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tuner.backend.check import TOLERANCE, Check, Delivery
from tuner.backend.verdict import Verdict
from tuner.job import placing
from tuner.job.doubts import take_over
from tuner.job.engine import Engine
from tuner.job.incumbent import prefer
from tuner.job.patience import patiently
from tuner.job.reserve import BOTH, Deliveries
from tuner.job.store import Store
from tuner.log.record import Record
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec
from tuner.states import GivenUp
from worker.outcome import ErrorKind

MEMORY_BYTES = 16 << 30
TIMEOUT_S = 900.0
RACE_S, LEAST_RACE_S = 30.0, 0.001
"""So long after the start of a delivery its race may go on to make the gain surer, at most, and where no
seconds are left."""
NEARLY = 1.5
"""The untuned model is built if that is expected to take at most so many times what is left."""
LOST_BOARD = "the board was lost while the model was measured; `tilefleet resume` does it again"
UNBUILT = Delivery(Check(TOLERANCE, skipped="the model was not built"), untuned=True)
"""The untuned model without a build: nothing of it was measured."""


async def deliver(
    job: JobSpec,
    searches: Sequence[TaskSearch],
    engine: Engine,
    store: Store,
    cancelled: asyncio.Event,
    over: asyncio.Event,
    left: Callable[[], float],
    deliveries: Deliveries,
) -> tuple[list[TaskSearch], str, bool]:
    """Build the job's model by its log, check it, race it beside the untuned one, and keep what
    came of it; whose best may be another, what there is to say, and whether there is a model.

    A model that loses the race is not delivered, but the untuned one: the job's log has no record to build
    by from then on. The same is done where the race has no result in time: ``over`` is set when the job is
    cancelled or its time has come. ``left`` are the budget's seconds. A layer without a config that ran gets
    the analysis's, as in any build; without any, that is the untuned model. What it takes is told to
    ``deliveries``. Raises GivenUp when the model is wrong.
    """
    changed = dict.fromkeys(await take_over(job.id, searches, store))
    if job.model is None or cancelled.is_set():
        return list(changed), "", False

    async def unbuilt(why: str) -> tuple[list[TaskSearch], str, bool]:
        kept = await patiently(store.delivered, job.id, UNBUILT, 0)
        return list(changed), why, kept

    began, seen_s, limit_s = time.monotonic(), deliveries.seen_s(job), job.budget.seconds or math.inf
    left_s = left()
    used_s = limit_s - left_s
    late_s = deliveries.late_s(job, any(search.best is not None for search in searches))

    def too_small(what: str, done: str, used_s: float = 0.0) -> str:
        needed_s = max(deliveries.needed_s(job), math.ceil(used_s + deliveries.expected_s(job)))
        return (
            f"a budget of {limit_s:g} s is too small for {what}, so the untuned model is delivered{done}: "
            f"give {needed_s} s or more"
        )

    if seen_s / BOTH > max(NEARLY * left_s, left_s + late_s):
        return await unbuilt(too_small("the build and its runs", " without a build", used_s))
    records = await patiently(store.log, job.id)
    short = bool(records) and seen_s > left_s + late_s
    if untuned := short or not records:
        records = []
    payload = await patiently(placing.payload_of, job, records, store)
    if untuned:
        payload["relayouts"] = []  # by which a plan may be another
    answer = await engine.beside(
        "tuner.job.delivery_child:deliver_in_child",
        payload | {"race": max(LEAST_RACE_S, min(RACE_S, left()))},
        job.demand,
        cancelled=over,
        timeout_s=TIMEOUT_S,
        memory_bytes=MEMORY_BYTES,
        anywhere=True,
    )
    spent_s = time.monotonic() - began
    if answer is None or cancelled.is_set():
        return list(changed), "", False
    if answer.problem and over.is_set():
        deliveries.took_longer(job, spent_s, untuned)
        if left() > 0:
            return await unbuilt("the untuned model is delivered, as the deadline came before the race ended")
        without = " without a check" if untuned else " without a race"
        return await unbuilt(too_small("the build and its runs", without, used_s))
    if answer.problem:
        return list(changed), f"the model was not built and measured: {answer.problem}", False
    same, surer_s = answer.result.get("same", False), answer.result.get("surer_s", 0.0)
    deliveries.observe(job, max(0.0, spent_s - surer_s), same)
    changed |= dict.fromkeys(await take_over(job.id, searches, store))
    if gone := _withdrawn(records, searches):
        return await unbuilt(gone)
    delivery, notes = Delivery.from_json(answer.result), list[str]()
    verdict = delivery.verdict
    lost = verdict if verdict is not None and verdict.lost else None
    if lost:
        notes.append(_who_won(lost))
        delivery = Delivery.from_json(answer.result["instead"])
    elif untuned:
        delivery = replace(delivery, untuned=True)
    else:
        delivery = replace(delivery, in_place=in_place(searches))
    if short:
        notes.append(too_small("a race of the tuned model", "", used_s))
    if not await patiently(store.delivered, job.id, delivery, answer.lease):
        return list(changed), LOST_BOARD, False
    if delivery.check.wrong:
        raise GivenUp(f"the built model is wrong: {delivery.check.wrong}")
    if lost:
        changed |= dict.fromkeys(await prefer(searches, 1 / lost.gain, store, answer.lease))
    if not any(search.records for search in searches) and limit_s < math.inf:
        notes.insert(0, too_small("trials beside the build and its runs", ""))
    if delivery.check.skipped:
        notes.append(f"the built model was not checked: {delivery.check.skipped}")
    return list(changed), "; ".join(notes), True


def _withdrawn(records: Sequence[Record], searches: Sequence[TaskSearch]) -> str:
    """What to say where some of the ``records`` of a build were withdrawn meanwhile; else nothing."""
    now = {record.identity: record for search in searches for record in search.records.values()}
    gone = [each for each in records if now.get(each.identity, each).error is ErrorKind.WITHDRAWN]
    if not gone:
        return ""
    return (
        f"{len(gone)} of {len(records)} records that the model was built by were withdrawn meanwhile, so the "
        "untuned model is delivered: `tilefleet resume` measures and builds again"
    )


def _who_won(verdict: Verdict) -> str:
    return (
        f"the untuned model won with {1e3 * verdict.untuned_s:.3g} ms, the tuned one took "
        f"{1e3 * verdict.delivered_s:.3g} ms: the untuned model is delivered"
    )


def in_place(searches: Sequence[TaskSearch]) -> float:
    """How many times as long as by themselves the best configs took in a model; 1 where none was timed."""
    timed = [
        (search.task.weight * best.in_place_s, search.task.weight * best.ranking_s)
        for search in searches
        if (best := search.best) is not None and best.in_place_s and best.ranking_s
    ]
    return sum(inside for inside, _ in timed) / sum(alone for _, alone in timed) if timed else 1.0
