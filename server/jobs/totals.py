"""Sums over the tasks of jobs, made by the database: a model may have a thousand layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, case, func, select, type_coerce
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from server.db.columns import Real, Whole
from server.db.documents import counts_in
from server.db.tables import RecordRow, TaskRow
from tuner.job.estimate import Sums


@dataclass(frozen=True)
class Totals:
    """Of a job's tasks, in all; ``count`` is how many there are. ``sums`` are of what weighs anything: chains
    are beside their parts."""

    count: int = 0
    trials: int = 0
    failed: int = 0
    reused: int = 0
    sums: Sums = field(default_factory=Sums)


def of_tasks(session: Session, jobs: Sequence[int]) -> dict[int, Totals]:
    """The totals of each of these jobs that has tasks."""
    best = aliased(RecordRow)
    query = (
        select(
            TaskRow.job_id,
            func.count(),
            func.sum(TaskRow.trials),
            func.sum(TaskRow.failed),
            func.sum(TaskRow.reused),
            *_sums(best.ranking_s),
        )
        .outerjoin(best, best.id == TaskRow.best_id)
        .where(TaskRow.job_id.in_(jobs))
        .group_by(TaskRow.job_id)
    )
    return {
        job: Totals(count, trials, failed, reused, Sums(*sums))
        for job, count, trials, failed, reused, *sums in session.execute(query)
    }


def errors_of(session: Session, jobs: Sequence[int]) -> dict[int, dict[str, int]]:
    """How many trials of each of these jobs failed, by kind of error."""
    each, count = counts_in(session, TaskRow.errors)
    query = (
        select(TaskRow.job_id, each.c.key, func.sum(count))
        .select_from(TaskRow)
        .join(each, TaskRow.id.is_not(None))  # of each task its own
        .where(TaskRow.job_id.in_(jobs), TaskRow.failed > 0)
        .group_by(TaskRow.job_id, each.c.key)
        .order_by(func.min(TaskRow.id))
    )
    found: dict[int, dict[str, int]] = {}
    for job, kind, number in session.execute(query):
        found.setdefault(job, {})[kind] = number
    return found


def _sums(seconds: InstrumentedAttribute[float | None]) -> list[ColumnElement[Any]]:
    """The fields of ``Sums``, in their order."""
    weighs, known = TaskRow.weight > 0, seconds.is_not(None)
    predicted_s = TaskRow.weight * func.coalesce(TaskRow.predicted_s, 0.0)
    parts = (
        case((weighs & known, TaskRow.weight * seconds), else_=0.0),
        case((weighs & known, predicted_s), else_=0.0),
        case((weighs & ~known, predicted_s), else_=0.0),
        case((weighs & ~known, 1), else_=0),
        case((weighs & TaskRow.predicted_s.is_(None), 1), else_=0),
    )
    # The time of a record is never 0, but a sum may be.
    kinds = (Real(0.0), Real(0.0), Real(0.0), Whole(0), Whole(0))
    return [type_coerce(func.sum(part), kind) for part, kind in zip(parts, kinds, strict=True)]
