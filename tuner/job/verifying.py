"""Measuring the best few of a task again, in turns with its incumbents: what leads may have had luck."""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kernels.space import Config
from tuner.backend.verdict import student_975
from tuner.job.store import Store
from tuner.log.record import Record
from tuner.search.task import TaskSearch
from worker.batch import VERIFY_ROUNDS
from worker.outcome import Outcome

ROUNDS = 5
"""How often a task's best few are measured again at most."""
BEHIND = 1 + 1e-6
"""A challenger that did not surely beat the incumbent ranks behind it by this factor."""
Measure = Callable[[list[Config]], Awaitable[list[Outcome]]]
"""Measures configs of one task in turns."""
Ask = Callable[..., Awaitable[Any]]


async def verify_task(
    search: TaskSearch,
    top: int,
    measure: Measure,
    store: Store,
    ask: Ask,
    stop: asyncio.Event,
    changed: Callable[[TaskSearch], None],
) -> None:
    """Measure the ``top`` few of a task again until the fastest of all useful layouts were.

    Where the fastest does not surely beat the incumbent of its layouts, the incumbent ranks first. So it does
    before what seems faster and had no turn in all rounds.
    """
    refused: set[Config] = set()
    lease = 0

    async def keep(records: Iterable[Record], lease: int) -> None:
        for record in list(records):
            if await ask(store.remeasured, record, search.records[record.config], lease):
                search.replace(record)

    for _ in range(ROUNDS):
        few = search.unsure(top, refused)
        if stop.is_set() or not few:
            return
        outcomes = await measure([record.config for record in few])
        kept: dict[Config, Outcome] = {}
        for record, outcome in zip(few, outcomes, strict=True):
            if outcome.error is None or not outcome.error.transient:
                again = search.remeasured(record, outcome)
                if await ask(store.remeasured, again, record, outcome.lease, outcome.at):
                    search.replace(again)
                    kept[record.config] = outcome
                    continue
            refused.add(record.config)
        lease = max((outcome.lease for outcome in kept.values()), default=0)
        await keep(held(search.records, search.incumbents, kept), lease)
        if search.best is not None:
            changed(search)
        if all(outcome.disturbed for outcome in outcomes):
            return  # on a machine that is so busy, another round would tell no more
    await keep(unproven(search.records, search.incumbents), lease)


def held(
    records: Mapping[Config, Record], incumbents: Collection[Config], outcomes: Mapping[Config, Outcome]
) -> Iterable[Record]:
    """The records that took turns with an incumbent of their layouts and seem faster, but not surely: they
    get a place behind it."""
    for incumbent in incumbents:
        first = records.get(incumbent)
        if first is None or first.ranking_s is None or incumbent not in outcomes:
            continue
        for config, outcome in outcomes.items():
            record = records[config]
            if config in incumbents or record.layouts != first.layouts or record.ranking_s is None:
                continue
            if record.ranking_s < first.ranking_s and gain_bound(outcomes[incumbent], outcome) <= 0:
                yield replace(record, placed_s=first.ranking_s * BEHIND)


def unproven(records: Mapping[Config, Record], incumbents: Collection[Config]) -> Iterable[Record]:
    """The records that seem faster than an incumbent of their layouts and were never measured again: they get
    a place behind it."""
    for incumbent in incumbents:
        first = records.get(incumbent)
        if first is None or first.verified_s is None or first.ranking_s is None:
            continue
        for record in records.values():
            rivals = record.layouts == first.layouts and record.verified_s is None
            if rivals and record.ranking_s is not None and record.ranking_s < first.ranking_s:
                yield replace(record, placed_s=first.ranking_s * BEHIND)


def gain_bound(incumbent: Outcome, challenger: Outcome) -> float:
    """The lower end of the 95 % interval of log(incumbent / challenger), which took turns.

    The medians' errors come from the quartiles of the repeats. Those of one turn are much alike, so there are
    as many independent ones as there were turns.
    """
    if incumbent.cost_s is None or challenger.cost_s is None:
        return math.inf if incumbent.cost_s is None else -math.inf
    error = math.hypot(_error(incumbent), _error(challenger))
    freedom = 2 * (VERIFY_ROUNDS - 1)
    return math.log(incumbent.cost_s / challenger.cost_s) - student_975(freedom) * error


def _error(outcome: Outcome) -> float:
    """The relative standard error of a median of so many turns, were the times normal."""
    if len(outcome.repeats_s) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(outcome.repeats_s, n=4)
    return 1.2533 * (high - low) / 1.349 / middle / math.sqrt(VERIFY_ROUNDS)
