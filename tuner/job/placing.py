"""The final pick of a model's job: by what the best configs take inside the built model."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import replace
from typing import Any

from kernels import target as targets
from kernels.layout import Layouts
from kernels.space import Config
from tuner.intake.shapes import sets_of
from tuner.job.engine import Engine
from tuner.job.patience import patiently
from tuner.job.store import Store
from tuner.log.record import Record, comparable
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec

FEW = 4
"""How many of each workload and layouts the build may choose from."""
MARGIN = 0.03
"""By so much a config must be faster in place to change the order: less is noise, unless it is simulated."""
MEMORY_BYTES = 8 << 30
LONGEST_S, LEAST_S = 300.0, 5.0
BOARD_S = 900.0
"""How long two models may take on a board that is none of our machines."""


async def place(
    job: JobSpec,
    searches: Sequence[TaskSearch],
    engine: Engine,
    store: Store,
    cancelled: asyncio.Event,
    left_s: float,
) -> tuple[list[TaskSearch], str]:
    """Time the best configs in place and keep their order; whose best may be another, and what went wrong.

    Should the tuned model be slower than an untuned one all the same, what that has ranks first, and the
    message says so. On a board that is no machine that runs whole models, simulated or real, the two models
    alone are compared, function by function: ``tuner/job/models_on_board.py``. Where less than LEAST_S of the
    job's time is left, or a layer has no config that ran, nothing happens: the order of the configs by
    themselves, with cold weights, stands. It stands as well when anything fails. By a simulated clock, which
    is slow by the wall's, the comparison is not of the job's time, as the delivery is not.
    """
    simulated = job.demand.clock != "wall"
    left_s = BOARD_S if simulated else left_s
    if job.model is None or left_s < LEAST_S or cancelled.is_set():
        return [], ""
    if any(search.best is None for search in searches):
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
    contenders = [record for search in searches for record in _contenders(search)]
    payload = await patiently(payload_of, job, contenders, store)
    simulated = job.demand.clock != "wall"
    answer = None
    if not simulated:
        answer = await engine.beside(
            "tuner.job.in_place:time_in_child",
            payload,
            job.demand,
            cancelled=cancelled,
            timeout_s=min(LONGEST_S, left_s),
            memory_bytes=MEMORY_BYTES,
        )
    if answer is None and not cancelled.is_set():
        answer = await engine.beside(
            "tuner.job.models_on_board:time_in_child",
            payload,
            job.demand,
            cancelled=cancelled,
            timeout_s=BOARD_S,
            memory_bytes=MEMORY_BYTES,
            anywhere=True,
        )
    if answer is None or cancelled.is_set():
        return [], ""
    if answer.problem:
        return [], (
            f"the comparison of configs inside the built model gave no result ({answer.problem}); each layer "
            "has the config that is fastest by itself, and `tilefleet resume` compares again"
        )
    result, changed = answer.result, []
    slower = result["tuned_s"] / result["untuned_s"]
    margin = 0.0 if simulated else MARGIN
    for search in searches:
        if search in settled:
            continue
        key = search.task.workload.key
        mine = [each for each in result["configs"] if each["key"] == key]
        seconds = {Config.from_json(each["config"]): float(each["seconds"]) for each in mine}
        found = {record.config: record for record in placed(search.records.values(), seconds)}
        if slower > 1 + margin:
            untuned = {Config.from_json(each["config"]) for each in result["untuned"] if each["key"] == key}
            records = [found.get(record.config, record) for record in search.records.values()]
            found |= {record.config: record for record in behind(records, untuned, slower)}
        for record in found.values():
            if await patiently(store.remeasured, record, answer.lease):
                search.replace(record)
        if found:
            changed.append(search)
    if slower <= 1 + margin:
        return changed, ""
    untuned_ms, tuned_ms = 1e3 * result["untuned_s"], 1e3 * result["tuned_s"]
    return changed, (
        f"the model as the analysis alone builds it takes {untuned_ms:.3g} ms, less than the tuned one with "
        f"{tuned_ms:.3g} ms: its configs now rank first"
    )


def behind(records: Iterable[Record], untuned: Set[Config], slower: float) -> list[Record]:
    """Of one workload's records those that lose their place to the configs of an untuned model.

    As the tuned model was that many times slower, none shall rank before these by less. There are none
    where one of these was not measured, or not as quietly as others.
    """
    ran = {record.config: record.ranking_s or 0.0 for record in comparable(records)}
    if not untuned or not untuned <= ran.keys():
        return []
    floor_s = slower * max(ran[config] for config in untuned)
    return [
        replace(record, placed_s=floor_s)
        for record in records
        if record.config not in untuned and record.ranking_s is not None and record.ranking_s < floor_s
    ]


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
