"""What the overview shows of the records: how many come in, and the bests among them."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from server.db.tables import JobRow, RecordRow, TargetRow, TaskRow, WorkloadRow, this_minute
from server.records.repository import sound
from server.records.schemas import Minute, RecentBest, RecentBests, RecordRate


def rate(session: Session, minutes: int) -> RecordRate:
    """How many records were stored in each of the last minutes, the present one included."""
    present = this_minute()
    first = present - minutes + 1
    query = (
        select(RecordRow.minute, func.count().label("records"))
        .where(RecordRow.minute >= first)
        .group_by(RecordRow.minute)
    )
    counts = {row.minute: row.records for row in session.execute(query)}
    return RecordRate(
        items=[
            Minute(at=datetime.fromtimestamp(minute * 60, UTC), records=counts.get(minute, 0))
            for minute in range(first, present + 1)
        ]
    )


def recent_bests(session: Session, limit: int) -> RecentBests:
    """The bests of all jobs' tasks that were measured last."""
    recommended = aliased(RecordRow)
    # Of jobs that share a best, the newest is named.
    newest = select(func.max(TaskRow.id)).where(TaskRow.best_id.is_not(None)).group_by(TaskRow.best_id)
    query = (
        select(
            *(RecordRow.id, RecordRow.document, WorkloadRow.document, TargetRow.document),
            *(JobRow, TargetRow.name, recommended.ranking_s),
        )
        .select_from(TaskRow)
        .join(JobRow, JobRow.id == TaskRow.job_id)
        .join(RecordRow, RecordRow.id == TaskRow.best_id)
        .join(WorkloadRow, WorkloadRow.key == TaskRow.workload_key)
        .join(TargetRow, TargetRow.key == JobRow.target_key)
        .outerjoin(recommended, recommended.id == TaskRow.recommended_id)
        .where(TaskRow.id.in_(newest), RecordRow.ranking_s.is_not(None))
        .order_by(TaskRow.best_id.desc())
        .limit(limit)
    )
    rows = session.execute(query).all()
    found = dict(sound(row[:4] for row in rows))
    return RecentBests(
        items=[
            RecentBest(
                record=id_,
                job=job.id,
                workload_key=record.workload.key,
                text=str(record.workload),
                target=target,
                clock=job.clock,
                threads=job.threads,
                best_s=record.ranking_s,
                recommended_s=recommended_s,
                gflops=record.workload.flops / record.ranking_s / 1e9,
                unit=record.workload.unit,
                config=record.config.to_json(),
            )
            for id_, *_, job, target, recommended_s in rows
            if (record := found.get(id_)) is not None and record.ranking_s
        ]
    )
