"""What happens where the untuned model wins: its configs rank first from then on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from kernels.space import Config
from tuner.job.placing import rank_anew
from tuner.job.store import Store
from tuner.log.record import Record, comparable
from tuner.search.task import TaskSearch


async def prefer(searches: Sequence[TaskSearch], slower: float, store: Store, lease: int) -> list[TaskSearch]:
    """Rank the untuned model's configs first, as the tuned one was ``slower``, that many times.

    Returns the searches that have a new order.
    """
    changed = []
    for search in searches:
        if found := behind(search.records.values(), {*search.incumbents}, slower):
            await rank_anew(search, found, store, lease)
            changed.append(search)
    return changed


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
