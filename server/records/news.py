"""What the overview shows of the records: how many come in, and the bests among them."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from kernels.workload import base as workloads
from server.db.tables import JobRow, RecordRow, TargetRow, TaskRow, WorkloadRow, this_minute
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
        select(JobRow, RecordRow, RecordRow.ranking_s, WorkloadRow, TargetRow.name, recommended.ranking_s)
        .select_from(TaskRow)
        .join(JobRow, JobRow.id == TaskRow.job_id)
        .join(RecordRow, RecordRow.id == TaskRow.best_id)
        .join(WorkloadRow, WorkloadRow.key == TaskRow.workload_key)
        .join(TargetRow, TargetRow.key == JobRow.target_key)
        .outerjoin(recommended, recommended.id == TaskRow.recommended_id)
        .where(TaskRow.id.in_(newest))
        .order_by(TaskRow.best_id.desc())
        .limit(limit)
    )
    found = session.execute(query).all()
    return RecentBests(
        items=[
            RecentBest(
                record=record.id,
                job=job.id,
                workload_key=stored.key,
                text=str(workload),
                target=target,
                clock=job.clock,
                threads=job.threads,
                best_s=best_s,
                recommended_s=recommended_s,
                gflops=workload.flops / best_s / 1e9,
                unit=workload.unit,
                config=record.document["config"],
            )
            for job, record, best_s, stored, target, recommended_s in found
            if best_s is not None
            for workload in (workloads.from_json(stored.document),)
        ]
    )
