"""What a running job has in memory and others have changed: withdrawn, disbelieved, or measured anew."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.job.patience import patiently
from tuner.job.store import Ranking, Store
from tuner.log.record import Record
from tuner.search.task import TaskSearch


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


def _ranking(record: Record) -> Ranking:
    return (record.error and record.error.value, record.disturbed, record.board, record.ranking_s)
