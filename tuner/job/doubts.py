"""What a running job has in memory and others have changed: withdrawn, disbelieved, or measured anew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from tuner.job.patience import patiently
from tuner.job.store import Ranking, Store
from tuner.log.record import Record
from tuner.search.calibration import Calibration
from tuner.search.task import TaskSearch
from tuner.spec import JobSpec

_EVERY_S, _LAG_S = 5.0, 600.0
"""How often to ask what was taken back, and how long that may take until all see it."""


async def take_over(job_id: int, searches: Sequence[TaskSearch], store: Store) -> list[TaskSearch]:
    """Have a job's searches rely on what is stored by now; those that changed and have a best."""
    by_task = {search.task.id: search for search in searches}
    known = {
        (search.task.id, config.key): _ranking(record)
        for search in searches
        for config, record in search.records.items()
    }
    changed: dict[TaskSearch, None] = {}
    for trial in await patiently(store.changed, job_id, known):
        search = by_task[trial.task_id]
        search.replace(trial.record)
        changed[search] = None
    return [search for search in changed if search.best is not None]


class TakenBack:
    """Notices when a board's word is taken back."""

    def __init__(self, store: Store) -> None:
        self._store, self._since = store, time.time() - _LAG_S
        self._count, self._next = 0, 0.0

    async def news(self, ask: Callable[..., Awaitable[int]]) -> bool:
        """Whether that has happened since the last call; the store is asked every few seconds, by ``ask``."""
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _EVERY_S
        before, self._count = self._count, await ask(self._store.taken_back, self._since)
        return self._count != before


async def begin_anew(
    job: JobSpec, searches: Sequence[TaskSearch], store: Store, limit: int
) -> tuple[Calibration | None, list[TaskSearch]]:
    """Have a job's searches learn again from what is stored by now, and nothing from what was taken back.

    How far predictions are off by that, and the searches that have another best. The best ``limit`` of each
    that are doubtful are measured again.
    """
    of, trials = job.demand, await patiently(store.trials, job.id)
    calibration, changed = Calibration() if job.any_layout else None, []
    for search in searches:
        before = search.best
        mine = [trial for trial in trials if trial.task_id == search.task.id]
        known = await patiently(store.known, search.task.workload, of.target, of.clock, of.threads)
        await asyncio.to_thread(search.begin_anew, mine, known, limit)
        if calibration is not None:
            calibration.learn_all(search.problem, search.records.values())
        if search.best is not None and search.best != before:
            changed.append(search)
    return calibration, changed


def _ranking(record: Record) -> Ranking:
    return (record.error and record.error.value, record.disturbed, record.board, record.ranking_s)
