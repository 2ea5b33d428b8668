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

from server.boards import views
from server.boards.days import DAY_S
from server.boards.report import fleet_report, text
from server.db.database import Database
from server.db.tables import BoardRow, JobRow, LabelRow, ModelRow, TargetRow, now
from server.engine import Engine
from server.jobs.schemas import ENDED
from server.metrics import Metrics
from server.notices.notice import EndedJob, News, Notice
from server.notices.outbox import Outbox
from server.settings import Settings

LOOK_S = 5.0
_MONDAY = 4
"""The first Monday, in days since the epoch."""
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
        found = session.execute(query).all()
        words = select(LabelRow).where(LabelRow.job_id.in_([job.id for job, _, _ in found]))
        labels: dict[int, list[str]] = {}
        for row in session.scalars(words.order_by(LabelRow.label)):
            labels.setdefault(row.job_id, []).append(row.label)
    return [
        EndedJob(
            job.id,
            model,
            target,
            job.state,
            job.message or "",
            job.finished,
            job.name,
            tuple(labels.get(job.id, ())),
        )
        for job, model, target in found
        if job.finished is not None
    ]


def drifts(db: Database) -> dict[str, float]:
    """The last reference time of each board over its best, where there are both."""
    with db.read() as session:
        found = {row.id: views.reference(row)["drift"] for row in session.execute(select(BoardRow)).scalars()}
    return {board: drift for board, drift in found.items() if drift is not None}


def weekly(settings: Settings, db: Database, now_s: float) -> Notice | None:
    """The report of the seven days before Monday (UTC), once a week; a file says which was last."""
    if not settings.notify_report:
        return None
    monday = int((now_s // DAY_S - _MONDAY) // 7 * 7 + _MONDAY)
    mark = settings.home_dir / "reported"
    if mark.exists() and mark.read_text().strip() == str(monday):
        return None
    if not mark.exists():  # nobody waits for a report of a week that this server has not seen
        mark.write_text(f"{monday}\n")
        return None
    with db.read() as session:
        report = fleet_report(session, 7, monday * DAY_S - 1)
    mark.write_text(f"{monday}\n")
    return Notice("fleet_report", text(report), report.model_dump(mode="json"))


def free_bytes(folder: Path) -> int:
    """What is free on the folder's disk."""
    return shutil.disk_usage(folder).free


@asynccontextmanager
async def notifying(
    settings: Settings, db: Database, engine: Engine, metrics: Metrics
) -> AsyncIterator[None]:
    """Send notices meanwhile, if the settings say where to."""
    to = settings.places
    if not to:
        yield
        return
    boxes = [Outbox(place) for place in to]
    metrics.undelivered.set_function(lambda: sum(box.undelivered for box in boxes))
    news = News(settings.notify_offline_s, settings.notify_disk_mb << 20)
    start = now()

    async def work() -> None:
        since = start
        while True:
            try:
                looked = now()
                jobs = await run_in_threadpool(ended_jobs, db, max(start, since - _OVERLAP))
                free = await run_in_threadpool(free_bytes, settings.home_dir)
                drift = await run_in_threadpool(drifts, db)
                notices = news.look(jobs, engine.boards(), free, time.monotonic(), drift)
                for box in boxes:
                    box.put(notices)
                since = looked
                # After all else is told: what keeps the report back keeps nothing else back.
                report = await run_in_threadpool(weekly, settings, db, time.time())
                for box in boxes:
                    box.put([report] if report else [])
            except Exception as error:  # the database may come back
                log.warning("nobody could be told any news: %s", error)
            await asyncio.sleep(LOOK_S)

    tasks = [asyncio.create_task(each, name="notices") for each in (work(), *(box.run() for box in boxes))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
