"""What happens where the untuned model wins: its configs rank first from then on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from kernels.space import Config
from tuner.job.placing import rank_anew
from tuner.job.store import Store
from tuner.log.record import Record, comparable
from tuner.search.task import TaskSearch

STEP = 4.0
"""How much further behind the configs of a tuned model come each time that it loses."""
Measure = Callable[[Mapping[TaskSearch, list[Config]]], Awaitable[None]]
"""Makes trials of configs, whatever is left of the budget; their searches have the records then."""


async def prefer(
    configs: Sequence[Mapping[str, Any]],
    searches: Sequence[TaskSearch],
    slower: float,
    attempt: int,
    measure: Measure,
    store: Store,
    lease: int,
) -> list[TaskSearch]:
    """Rank the untuned model's ``configs`` (``{"key", "config"}``) first, as the tuned one was ``slower``.

    Those that no trial had are measured. Returns the searches that have a new order.
    """
    untuned: dict[str, set[Config]] = {}
    for each in configs:
        untuned.setdefault(each["key"], set()).add(Config.from_json(each["config"]))
    await measure(_unmeasured(searches, untuned))
    changed = []
    for search in searches:
        mine = untuned.get(search.task.workload.key, set())
        if found := behind(search.records.values(), mine, slower * STEP**attempt):
            await rank_anew(search, found, store, lease)
            changed.append(search)
    return changed


def _unmeasured(
    searches: Iterable[TaskSearch], untuned: Mapping[str, Set[Config]]
) -> dict[TaskSearch, list[Config]]:
    """Configs of an untuned model that no trial of their workload ran, while others did.

    A workload of which none ran has these anyway, as any build takes them.
    """
    found = {}
    for search in searches:
        ran = {record.config for record in search.records.values() if record.error is None}
        lacks = sorted(untuned.get(search.task.workload.key, set()) - ran, key=str)
        if ran and lacks:
            found[search] = lacks
    return found


def behind(records: Iterable[Record], untuned: Set[Config], slower: float) -> list[Record]:
    """Of one workload's records those that lose their place to the configs of an untuned model.

    As the tuned model was that many times slower, none shall rank before these by less. There are none
    where one of these was not measured, or not as quietly as others.
    """
    records = list(records)
    ran = {record.config: record.ranking_s or 0.0 for record in comparable(records)}
    if not untuned or not untuned <= ran.keys():
        return []
    floor_s = slower * max(ran[config] for config in untuned)
    return [
        replace(record, placed_s=floor_s)
        for record in records
        if record.config not in untuned and record.ranking_s is not None and record.ranking_s < floor_s
    ]
