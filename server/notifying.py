"""Looks for news every few seconds, and sends it."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool

from server.db.database import Database
from server.db.tables import JobRow, ModelRow, TargetRow, now
from server.engine import Engine
from server.jobs.store import ENDED
from server.notices.notice import EndedJob, News, Notice
from server.notices.places import Place, deliver
from server.settings import Settings

LOOK_S = 5.0
_OVERLAP = timedelta(minutes=5)
"""How far each look goes back beyond the last one: coordinators' clocks differ."""
log = logging.getLogger(__name__)


def ended_jobs(db: Database, since: datetime) -> list[EndedJob]:
    """The jobs that ended since then."""
    query = (
        select(JobRow, ModelRow.name, TargetRow.name)
        .join(TargetRow, TargetRow.key == JobRow.target_key)
        .outerjoin(ModelRow, ModelRow.hash == JobRow.model_hash)
        .where(JobRow.finished >= since, JobRow.state.in_(ENDED))
        .order_by(JobRow.finished)
    )
    with db.read() as session:
        return [
            EndedJob(job.id, model or "one workload", target, job.state, job.message or "", job.finished)
            for job, model, target in session.execute(query).all()
            if job.finished is not None
        ]


def free_bytes(folder: Path) -> int:
    """What is free on the folder's disk."""
    return shutil.disk_usage(folder).free


@asynccontextmanager
async def notifying(settings: Settings, db: Database, engine: Engine) -> AsyncIterator[None]:
    """Send notices meanwhile, if the settings say where to."""
    to = settings.places
    if not to:
        yield
        return
    news = News(settings.notify_offline_s, settings.notify_disk_mb << 20)
    start = now()

    async def work() -> None:
        since = start
        while True:
            try:
                looked = now()
                jobs = await run_in_threadpool(ended_jobs, db, max(start, since - _OVERLAP))
                free = await run_in_threadpool(free_bytes, settings.home_dir)
                for notice in news.look(jobs, engine.boards(), free, time.monotonic()):
                    for place in to:
                        await run_in_threadpool(_deliver, place, notice)
                since = looked
            except Exception as error:  # the database may come back
                log.warning("nobody could be told any news: %s", error)
            await asyncio.sleep(LOOK_S)

    task = asyncio.create_task(work(), name="notices")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _deliver(place: Place, notice: Notice) -> None:
    reason = deliver(place, notice)
    if reason is not None:
        log.warning("%s was not told: %s", place.name, reason)
