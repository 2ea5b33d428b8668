"""The final pick of a model's job: by what the best configs take inside the built model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from kernels import target as targets
from kernels.layout import Layouts
from kernels.space import Config
from tuner.intake.shapes import sets_of
from tuner.job.doubts import take_over
from tuner.job.engine import Engine
from tuner.job.patience import patiently
from tuner.job.store import Store
from tuner.log.record import Record, comparable
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec
from worker.outcome import Answer

FEW = 4
"""How many of each workload and layouts the build may choose from."""
MARGIN = 0.03
"""By so much a config must be faster in place to change the order: less is noise, unless it is simulated."""
MEMORY_BYTES = 8 << 30
LONGEST_S, LEAST_S = 300.0, 5.0
BOARD_S = 900.0
"""How long two models may take on a board that is none of our machines."""
ATTEMPTS, STEP = 3, 4.0
"""How often a model that lost is compared, and how much further behind its configs come each time."""
Measure = Callable[[Mapping[TaskSearch, list[Config]]], Awaitable[None]]
"""Makes trials of configs, whatever is left of the budget; their searches have the records then."""


async def place(
    job: JobSpec,
    searches: Sequence[TaskSearch],
    engine: Engine,
    store: Store,
    cancelled: asyncio.Event,
    left_s: float,
    measure: Measure,
) -> tuple[list[TaskSearch], str]:
    """Time the best configs in place and keep their order; whose best may be another, and what went wrong.

    Should the tuned model be slower than an untuned one all the same, what that has ranks first, and the
    message says so; which of it was not measured yet, ``measure`` does. On a board that is no machine that
    runs whole models, simulated or real, the two models alone are compared, function by function:
    ``tuner/job/models_on_board.py``. Where less than LEAST_S of the job's time is left, or a layer has no
    config that ran, nothing happens: the order of the configs by themselves, with cold weights, stands. It
    stands as well when anything fails. By a simulated clock, which is slow by the wall's, the comparison is
    not of the job's time, as the delivery is not.
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
        found, note = await _place(
            mine, searches, changed, engine, store, cancelled, left_s / len(sets), measure
        )
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
    measure: Measure,
) -> tuple[list[TaskSearch], str]:
    """``place`` for one set of shapes; layers that others have as well are ``settled`` by the first.

    What loses to the untuned model is planned anew by the changed ranks and compared again.
    """
    changed: dict[TaskSearch, None] = {}
    note = ""
    for attempt in range(ATTEMPTS):
        pick = best_of_layouts if attempt else _contenders
        records = [record for search in searches for record in pick(search)]
        answer = await _compared(job, records, engine, store, cancelled, left_s)
        # A place is the cost of another: it shall be none that is not believed by now.
        changed |= dict.fromkeys(await take_over(job.id, searches, store))
        if answer is None or cancelled.is_set():
            break
        if answer.problem:
            note = note or (
                f"the comparison of configs inside the built model gave no result ({answer.problem}); each "
                "layer has the config that is fastest by itself, and `tilefleet resume` compares again"
            )
            break
        result = answer.result
        slower = result["tuned_s"] / result["untuned_s"]
        lost = slower > 1 + (MARGIN if job.demand.clock == "wall" else 0.0)
        if attempt and not lost:
            break
        untuned: dict[str, set[Config]] = {}
        for each in result["untuned"]:
            untuned.setdefault(each["key"], set()).add(Config.from_json(each["config"]))
        if lost:
            await measure(_unmeasured(searches, untuned))
        for search in searches:
            if search in settled:
                continue
            key = search.task.workload.key
            mine = [each for each in result["configs"] if each["key"] == key]
            seconds = {Config.from_json(each["config"]): float(each["seconds"]) for each in mine}
            found = {record.config: record for record in placed(search.records.values(), seconds)}
            if lost:
                ranked = [found.get(record.config, record) for record in search.records.values()]
                now_behind = behind(ranked, untuned.get(key, set()), slower * STEP**attempt)
                found |= {record.config: record for record in now_behind}
            for record in found.values():
                before = search.records[record.config]
                if await patiently(store.remeasured, record, before, answer.lease):
                    search.replace(record)
            if found:
                changed[search] = None
        if not lost:
            break
        missing = ", ".join(str(search.task.workload) for search in _unmeasured(searches, untuned))
        note = note or (
            f"the model as the analysis alone builds it takes {1e3 * result['untuned_s']:.3g} ms, less than "
            f"the tuned one with {1e3 * result['tuned_s']:.3g} ms: its configs now rank first"
            + (f", but for those that could not be measured, of {missing}" if missing else "")
        )
    return list(changed), note


async def _compared(
    job: JobSpec,
    records: Sequence[Record],
    engine: Engine,
    store: Store,
    cancelled: asyncio.Event,
    left_s: float,
) -> Answer | None:
    """The models that ``records`` and none build, on a board of the job; None where there is none."""
    payload = await patiently(payload_of, job, records, store)
    answer = None
    if job.demand.clock == "wall":
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
    return answer


def _unmeasured(
    searches: Iterable[TaskSearch], untuned: Mapping[str, Set[Config]]
) -> dict[TaskSearch, list[Config]]:
    """Configs of an untuned model that no trial of their workload ran."""
    found = {}
    for search in searches:
        ran = {record.config for record in search.records.values() if record.error is None}
        if lacks := sorted(untuned.get(search.task.workload.key, set()) - ran, key=str):
            found[search] = lacks
    return found


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


def best_of_layouts(search: TaskSearch) -> list[Record]:
    """The best of each pair of layouts: what a build chooses from."""
    found: dict[Layouts, Record] = {}
    for record in search.top(len(search.records)):
        found.setdefault(record.layouts, record)
    return list(found.values())


def _contenders(search: TaskSearch) -> list[Record]:
    """The best few of all useful layouts, and what an untuned model may have."""
    best = [record for records in search.useful().values() for record in comparable(records)[:FEW]]
    seeds = [search.records[seed] for seed in search.problem.seeds if seed in search.records]
    return best + [record for record in seeds if record.error is None and record not in best]
