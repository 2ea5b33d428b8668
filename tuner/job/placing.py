"""The final pick of a model's job: by what the best configs take inside the built model."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from compiler.intake.shapes import sets_of
from kernels import target as targets
from kernels.layout import Layouts
from kernels.space import Config
from tuner.job.doubts import take_over
from tuner.job.engine import Engine
from tuner.job.patience import patiently
from tuner.job.store import Store
from tuner.log.record import Record, comparable
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec

FEW = 4
"""How many of each workload and layouts the build may choose from."""
MARGIN = 0.03
"""By so much a config must be faster in place to change the order: less is noise."""
MEMORY_BYTES = 8 << 30
LONGEST_S, LEAST_S = 300.0, 5.0


async def place(
    job: JobSpec,
    searches: Sequence[TaskSearch],
    engine: Engine,
    store: Store,
    cancelled: asyncio.Event,
    left_s: float,
) -> tuple[list[TaskSearch], str]:
    """Time the best configs in place and keep their order; whose best may be another, and what went wrong.

    It is done on a board that is the machine its worker runs on. Elsewhere, where less than LEAST_S of the
    job's time is left, or a layer has no config that ran, nothing happens: the order of the configs by
    themselves, with cold weights, stands. It stands as well when anything fails.
    """
    if job.model is None or job.demand.clock != "wall" or any(search.best is None for search in searches):
        return [], ""
    changed: list[TaskSearch] = []
    notes: list[str] = []
    sets = sets_of(job.shapes)
    for shapes in sets:
        if left_s / len(sets) < LEAST_S or cancelled.is_set():
            break
        mine = replace(job, shapes=shapes)
        found, note = await _place(mine, searches, changed, engine, store, cancelled, left_s / len(sets))
        changed += found
        if note and note not in notes:
            notes.append(note)
    return changed, "; ".join(notes)


async def _place(
    job: JobSpec,
    searches: Sequence[TaskSearch],
    settled: Collection[TaskSearch],
    engine: Engine,
    store: Store,
    cancelled: asyncio.Event,
    left_s: float,
) -> tuple[list[TaskSearch], str]:
    """``place`` for one set of shapes; layers that others have as well are ``settled`` by the first."""
    records = [record for search in searches for record in _contenders(search)]
    answer = await engine.beside(
        "tuner.job.in_place:time_in_child",
        await patiently(payload_of, job, records, store),
        job.demand,
        cancelled=cancelled,
        timeout_s=min(LONGEST_S, left_s),
        memory_bytes=MEMORY_BYTES,
    )
    # A place is the cost of another: it shall be none that is not believed by now.
    changed = dict.fromkeys(await take_over(job.id, searches, store))
    if answer is None or cancelled.is_set():
        return list(changed), ""
    if answer.problem:
        return list(changed), (
            f"the comparison of configs inside the built model gave no result ({answer.problem}); each layer "
            "has the config that is fastest by itself, and `tilefleet resume` compares again"
        )
    for search in searches:
        if search in settled:
            continue
        key = search.task.workload.key
        mine = [each for each in answer.result["configs"] if each["key"] == key]
        seconds = {Config.from_json(each["config"]): float(each["seconds"]) for each in mine}
        if found := placed(search.records.values(), seconds):
            await rank_anew(search, found, store, answer.lease)
            changed[search] = None
    return list(changed), ""


async def rank_anew(search: TaskSearch, records: Sequence[Record], store: Store, lease: int) -> None:
    """Keep other places of records that the search has, but for those that do not stand as it knows them."""
    for record in records:
        if await patiently(store.remeasured, record, search.records[record.config], lease):
            search.replace(record)


def placed(records: Iterable[Record], seconds: dict[Config, float]) -> list[Record]:
    """The records of one workload that were timed in place, with their places among those of their layouts.

    The one fastest in place gets the least of their costs as its ``placed_s``, and so on; where that is
    hardly faster than the one fastest by itself, each keeps its own cost.
    """
    groups: dict[Layouts, list[Record]] = {}
    for record in records:
        if record.config in seconds and record.isolated_s is not None:
            groups.setdefault(record.layouts, []).append(record)
    result = []
    for all_of_them in groups.values():
        group = comparable(all_of_them)
        # By their ranks, as a challenger that did not surely beat the incumbent comes behind it.
        group.sort(key=lambda record: (record.ranking_s or 0.0, record.isolated_s or 0.0))
        costs = sorted(record.isolated_s or 0.0 for record in group)
        fastest_s = min(seconds[record.config] for record in group)
        if fastest_s < (1 - MARGIN) * seconds[group[0].config]:
            group.sort(key=lambda record: seconds[record.config])
        result += [
            replace(record, in_place_s=seconds[record.config], placed_s=cost)
            for record, cost in zip(group, costs, strict=True)
        ]
    return result


def payload_of(job: JobSpec, records: Sequence[Record], store: Store) -> dict[str, Any]:
    """What a child needs to build the job's model from ``records``."""
    demand = job.demand
    return {
        "model": job.model,
        "shapes": job.shapes,
        "target": targets.to_json(demand.target),
        "threads": demand.threads,
        "numerics": job.numerics.value,
        "records": [record.to_json() for record in records],
        "relayouts": store.relayouts(demand.target, demand.threads, demand.clock),
    }


def _contenders(search: TaskSearch) -> list[Record]:
    """The best few of all useful layouts, and what an untuned model may have."""
    best = [record for records in search.useful().values() for record in comparable(records)[:FEW]]
    seeds = [search.records[seed] for seed in search.problem.seeds if seed in search.records]
    return best + [record for record in seeds if record.error is None and record not in best]
