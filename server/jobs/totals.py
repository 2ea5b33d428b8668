"""Sums over the tasks of jobs, made by the database: a model may have a thousand layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from server.db.documents import counts_in
from server.db.tables import RecordRow, TaskRow


@dataclass(frozen=True)
class Totals:
    """Of a job's tasks, in all; ``best_s`` is of the whole model, None while some layer has none."""

    trials: int = 0
    failed: int = 0
    reused: int = 0
    best_s: float | None = None


def of_tasks(session: Session, jobs: Sequence[int]) -> dict[int, Totals]:
    """The totals of each of these jobs that has tasks."""
    best = aliased(RecordRow)
    query = (
        select(
            TaskRow.job_id,
            func.sum(TaskRow.trials),
            func.sum(TaskRow.failed),
            func.sum(TaskRow.reused),
            _whole(best.ranking_s),
        )
        .outerjoin(best, best.id == TaskRow.best_id)
        .where(TaskRow.job_id.in_(jobs))
        .group_by(TaskRow.job_id)
    )
    return {row[0]: Totals(*row[1:]) for row in session.execute(query)}


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


def _whole(seconds: InstrumentedAttribute[float | None]) -> ColumnElement[float | None]:
    """The sum of what weighs anything, NULL while some of that is not known; chains, which weigh nothing, are
    beside their parts."""
    weighs = TaskRow.weight > 0
    unknown = func.sum(case((weighs & seconds.is_(None), 1), else_=0))
    heavy = func.sum(case((weighs, 1), else_=0))
    return case(((unknown == 0) & (heavy > 0), func.sum(case((weighs, TaskRow.weight * seconds)))))
