"""How a job's whole model became faster, thinned here so that a browser need not."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fastapi import APIRouter
from pydantic import BaseModel, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from server.db.tables import JobRow, RecordRow, TaskRow, TrialRow
from server.jobs import views
from server.pages import JobId
from server.problems import responses
from server.services import Ctx

POINTS = 400
router = APIRouter(prefix="/jobs", tags=["jobs"])


class Point(BaseModel):
    """The whole model after a number of trials."""

    trial: int = Field(description="Trials of all tasks by then; 0 before tuning.", examples=[120])
    estimated_ms: float = Field(description="Sum over the tasks of weight times best cost.", examples=[7.17])


class Progress(BaseModel):
    """A falling curve."""

    points: list[Point] = Field(
        description=f"Where the estimate fell, and the last trial; at most {POINTS}, evenly thinned."
    )


@router.get("/{job_id}/progress", summary="Read a job's curve", responses=responses(404))
def get_progress(job_id: JobId, ctx: Ctx) -> Progress:
    """The estimated time of the whole model over trials; empty until every task has a time.

    A task that had no time by then counts as untuned, by the analysis's config.
    """
    with ctx.db.read() as session:
        points = _falls(session, views.get_row(session, job_id))
    thinned = views.thin(points, POINTS)
    return Progress(points=[Point(trial=trial, estimated_ms=ms) for trial, ms in thinned])


def _falls(session: Session, job: JobRow) -> list[tuple[int, float]]:
    tasks = (
        select(TaskRow.id, TaskRow.weight, RecordRow.ranking_s)
        .outerjoin(RecordRow, RecordRow.id == TaskRow.recommended_id)
        .where(TaskRow.job_id == job.id)
    )
    found = session.execute(tasks).all()
    weights = {row.id: row.weight for row in found}
    untuned = {row.id: row.ranking_s for row in found if row.ranking_s is not None}
    query = (
        select(TrialRow.task_id, RecordRow.ranking_s)
        .join(RecordRow, RecordRow.id == TrialRow.record_id)
        .where(TrialRow.job_id == job.id)
        .order_by(TrialRow.id)
    )
    return falls(weights, untuned, ((row.task_id, row.ranking_s) for row in session.execute(query)))


def falls(
    weights: dict[int, int], untuned: dict[int, float], trials: Iterable[tuple[int, float | None]]
) -> list[tuple[int, float]]:
    """(trials so far, milliseconds) wherever the sum of weight times best fell, and at the last trial.

    ``untuned`` is what tasks begin with, in seconds, as far as it is known. ``trials`` are (task, seconds or
    None where it failed) in the order in which they ended.
    """
    best = {task: untuned.get(task, math.inf) for task in weights}
    points: list[tuple[int, float]] = []
    if best and all(map(math.isfinite, best.values())):
        points.append((0, 1e3 * sum(weight * best[task] for task, weight in weights.items())))
    count = 0
    for count, (task, cost) in enumerate(trials, start=1):
        if cost is None or cost >= best[task]:
            continue
        best[task] = cost
        total = sum(weight * best[each] for each, weight in weights.items())
        if math.isfinite(total):
            points.append((count, total * 1e3))
    if points and points[-1][0] < count:
        points.append((count, points[-1][1]))
    return points
