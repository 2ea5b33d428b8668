"""What is not believed any more while a job runs: it was withdrawn, or its board was caught at a lie."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.job.patience import patiently
from tuner.job.store import Store
from tuner.search.task import TaskSearch


async def lose_doubted(job_id: int, searches: Sequence[TaskSearch], store: Store) -> list[TaskSearch]:
    """Have a job's searches rely on no such time; those that did and have another best now."""
    by_task = {search.task.id: search for search in searches}
    lost: dict[TaskSearch, None] = {}
    for trial in await patiently(store.doubted, job_id):
        search = by_task[trial.task_id]
        mine = search.records.get(trial.record.config)
        if mine is not None and mine.error is None and not mine.disturbed:
            search.replace(trial.record)
            lost[search] = None
    return [search for search in lost if search.best is not None]
