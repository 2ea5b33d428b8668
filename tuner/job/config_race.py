"""The verdict of a job of one workload: its untuned and its best config, both built, in turns on a board."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from kernels.space import Config
from tuner.backend.check import TOLERANCE, Check, Delivery
from tuner.backend.verdict import DELIVERED, UNTUNED, Verdict
from tuner.job.doubts import take_over
from tuner.job.incumbent import prefer
from tuner.job.patience import patiently
from tuner.job.reserve import Deliveries
from tuner.job.store import Store
from tuner.log.record import Record
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec
from worker.batch import VERIFY_ROUNDS
from worker.outcome import Outcome

GROUPS, MOST_GROUPS = 3, 5
"""So often both are loaded anew and take VERIFY_ROUNDS turns each, and so often at most."""
SURE, LONGEST_S = 0.01, 30.0
"""There are more than GROUPS until the gain is known so well, or they have taken so long."""
UNBUILT = Check(TOLERANCE, skipped="a job of one workload builds no model")
Measure = Callable[[TaskSearch, list[Config]], Awaitable[list[Outcome]]]
"""Measures configs of a task in turns."""


async def race_configs(
    job: JobSpec,
    searches: Sequence[TaskSearch],
    store: Store,
    measure: Measure,
    over: asyncio.Event,
    deliveries: Deliveries,
) -> tuple[list[TaskSearch], str]:
    """Keep the verdict on the one search: its incumbent beside its best; the search if its best is another
    then, and what there is to say. Several searches have none.

    A best that loses ranks behind the incumbent from then on. By a simulated clock another run would tell the
    same, so the records say it, and so they do where both are one config. Nothing more is measured once
    ``over`` is set. What the race took is told to ``deliveries``.
    """
    if over.is_set() or len(searches) != 1:
        return [], ""
    changed, (search,) = await take_over(job.id, searches, store), searches
    best, untuned = search.best, search.records.get(search.incumbent)
    if best is None:
        return changed, ""
    if untuned is None or untuned.error is not None:
        return changed, "there is no verdict, as the untuned config did not run"
    verdict, lease = _known(best, untuned, job.demand.clock), 0
    if verdict is None:
        began = time.monotonic()
        verdict, lease, problem = await _race(search, best.config, store, measure, over)
        if verdict is None:
            changed = [search] if search.best is not None else []
            return changed, f"there is no verdict, as the race of both configs has no result: {problem}"
        deliveries.observe(job, time.monotonic() - began)
    note = ""
    if verdict.lost:
        changed += await prefer(searches, 1 / verdict.gain, store, lease)
        note = (
            f"the untuned config won with {1e3 * verdict.untuned_s:.3g} ms, the best of the search took "
            f"{1e3 * verdict.delivered_s:.3g} ms"
        )
        if search.best is not None and search.best.config == search.incumbent:
            verdict, note = verdict.of_untuned, f"{note}: the untuned config ranks first"
    kept = await patiently(store.delivered, job.id, Delivery(UNBUILT, verdict=verdict), lease)
    return changed, note if kept else "there is no verdict, as the board was lost"


def _known(best: Record, untuned: Record, clock: str) -> Verdict | None:
    """The verdict without a race: on one and the same config, or by a clock without noise."""
    untuned_s, delivered_s = untuned.ranking_s or 0.0, best.ranking_s or 0.0
    if best.config == untuned.config:
        return Verdict(untuned_s, delivered_s, same=True)
    if clock == "wall":
        return None
    return Verdict.of([{UNTUNED: [untuned_s], DELIVERED: [delivered_s]}])


async def _race(
    search: TaskSearch, best: Config, store: Store, measure: Measure, over: asyncio.Event
) -> tuple[Verdict | None, int, str]:
    """The verdict, the lease of the last turns, and why there is none.

    The two records count that they were measured again. Their costs stay: the verdict has these times.
    """
    groups: list[dict[str, Sequence[float]]] = []
    lease, began = 0, time.monotonic()
    while not _enough(groups, time.monotonic() - began):
        outcomes = await measure(search, [search.incumbent, best])
        failed = next((each for each in outcomes if each.error is not None), None)
        for config, outcome in zip((search.incumbent, best), outcomes, strict=True):
            if outcome.error is not None and outcome.error.transient:
                continue
            record = search.records[config]
            wrong = outcome.error is not None
            again = search.remeasured(record, outcome) if wrong else _counted(record)
            if not await patiently(store.remeasured, again, record, outcome.lease, outcome.at):
                return None, 0, "the board was lost, or what it said was taken back"
            search.replace(again)
        if failed is not None:
            late = over.is_set() and failed.error is not None and failed.error.transient
            return None, 0, "the time of the job was over" if late else failed.message or str(failed.error)
        lease = outcomes[0].lease
        if outcomes[1].lease != lease:
            return None, 0, "the board was lost between the two"
        groups.append(dict(zip((UNTUNED, DELIVERED), (each.repeats_s for each in outcomes), strict=True)))
    return replace(Verdict.of(groups), rounds=VERIFY_ROUNDS * len(groups)), lease, ""


def _counted(record: Record) -> Record:
    return replace(record, remeasured=record.remeasured + 1)


def _enough(groups: Sequence[dict[str, Sequence[float]]], spent_s: float) -> bool:
    if len(groups) < GROUPS:
        return False
    return len(groups) == MOST_GROUPS or spent_s > LONGEST_S or Verdict.of(groups).known_within(SURE)
