"""How a job's whole model became faster, thinned here so that a browser need not."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from server.db.tables import JobRow, RecordRow, TaskRow, TrialRow
from server.http.pages import thin
from server.jobs import views
from server.jobs.schemas import CURVE, Point, Progress


def progress(session: Session, job: JobRow) -> Progress:
    """The estimated time of the whole model over trials; empty until every task has a time."""
    built = views.built_of(job)
    thinned = thin(_falls(session, job), CURVE)
    return Progress(
        points=[Point(trial=trial, estimated_ms=views.whole_ms(seconds, built)) for trial, seconds in thinned]
    )


def _falls(session: Session, job: JobRow) -> list[tuple[int, float]]:
    tasks = (
        select(TaskRow.id, TaskRow.weight, RecordRow.ranking_s)
        .outerjoin(RecordRow, RecordRow.id == TaskRow.recommended_id)
        .where(TaskRow.job_id == job.id)
    )
    found = session.execute(tasks).all()
    weights = {row.id: row.weight for row in found}
    untuned = {row.id: row.ranking_s for row in found if row.ranking_s is not None}
    trials = session.execute(views.trials_of(job.id).order_by(TrialRow.id))
    return falls(weights, untuned, ((task, seconds) for task, _, seconds in trials))


def falls(
    weights: dict[int, int], untuned: dict[int, float], trials: Iterable[tuple[int, float | None]]
) -> list[tuple[int, float]]:
    """(trials so far, seconds) wherever the sum of weight times best fell, and at the last trial.

    ``untuned`` is what tasks begin with, in seconds, as far as it is known. ``trials`` are (task, seconds or
    None where it failed) in the order in which they ended.
    """
    best = {task: untuned.get(task, math.inf) for task in weights}
    points: list[tuple[int, float]] = []
    if best and all(map(math.isfinite, best.values())):
        points.append((0, sum(weight * best[task] for task, weight in weights.items())))
    count = 0
    for count, (task, cost) in enumerate(trials, start=1):
        if cost is None or cost >= best[task]:
            continue
        best[task] = cost
        total = sum(weight * best[each] for each, weight in weights.items())
        if math.isfinite(total):
            points.append((count, total))
    if points and points[-1][0] < count:
        points.append((count, points[-1][1]))
    return points
