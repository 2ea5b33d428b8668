"""The final pick of a model's job: by what the best configs take inside the built model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kernels import target as targets
from kernels.layout import Layouts
from kernels.space import Config
from tuner.engine import Engine
from tuner.job import JobSpec
from tuner.record import Record
from tuner.search import TaskSearch
from tuner.store import Store

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

    Where no board of the job is a machine that can run whole models nothing happens: the order of the
    configs by themselves, with cold weights, stands. It stands as well when anything fails.
    """
    if job.model is None or job.clock != "wall":
        return [], ""
    if left_s < LEAST_S:
        return [], "no time was left to compare configs inside the built model"
    payload = await asyncio.to_thread(_payload, job, searches, store)
    answer = await engine.beside(
        "tuner.in_place:time_in_child",
        payload,
        job.target,
        threads=job.threads,
        tags=job.tags,
        clock=job.clock,
        level=job.priority,
        job=job.id,
        cancelled=cancelled,
        timeout_s=min(LONGEST_S, left_s),
        memory_bytes=MEMORY_BYTES,
    )
    if answer is None or cancelled.is_set():
        return [], ""
    if answer.problem:
        return [], f"configs were not compared inside the built model: {answer.problem}"
    changed = []
    for search in searches:
        mine = [each for each in answer.result if each["key"] == search.task.workload.key]
        seconds = {Config.from_json(each["config"]): float(each["seconds"]) for each in mine}
        for record in placed(search.records.values(), seconds):
            if await asyncio.to_thread(store.remeasured, record, answer.lease):
                search.replace(record)
        if mine:
            changed.append(search)
    return changed, ""


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
    for group in groups.values():
        group.sort(key=lambda record: record.isolated_s or 0.0)
        costs = [record.isolated_s or 0.0 for record in group]
        fastest_s = min(seconds[record.config] for record in group)
        if fastest_s < (1 - MARGIN) * seconds[group[0].config]:
            group.sort(key=lambda record: seconds[record.config])
        result += [
            replace(record, in_place_s=seconds[record.config], placed_s=cost)
            for record, cost in zip(group, costs, strict=True)
        ]
    return result


def _payload(job: JobSpec, searches: Sequence[TaskSearch], store: Store) -> dict[str, Any]:
    records = [record for search in searches for best in search.useful().values() for record in best[:FEW]]
    return {
        "model": job.model,
        "shapes": job.shapes,
        "target": targets.to_json(job.target),
        "threads": job.threads,
        "numerics": job.numerics.value,
        "records": [record.to_json() for record in records],
        "relayouts": store.relayouts(job.target, job.threads, job.clock),
    }
