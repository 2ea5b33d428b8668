"""How a job's whole model became faster, thinned here so that a browser need not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from server.db.tables import JobRow, RecordRow, TaskRow, TrialRow
from server.jobs import totals, views
from server.jobs.schemas import CURVE, Point, Progress
from server.records.leaders import LEADS


def progress(session: Session, job: JobRow) -> Progress:
    """The estimated time of the whole model over trials; empty until every task has a time."""
    built = views.built_of(job)
    sums = totals.of_tasks(session, [job.id]).get(job.id, totals.Totals()).sums
    share = sums.share_of(job.others_s)
    scale = views.whole_ms(1.0, built, share) - views.whole_ms(0.0, built, share)
    return Progress(
        points=[
            Point(
                trial=fall.trial,
                estimated_ms=views.whole_ms(fall.seconds, built, share),
                task=fall.task,
                gain_ms=scale * fall.gain_s,
            )
            for fall in largest(_falls(session, job), CURVE)
        ]
    )


class Fall(NamedTuple):
    """Where the whole model became faster: by a new best of ``task``, which brought ``gain_s``.

    ``task`` is None of the first point, which nothing came before, and of the last trial.
    """

    trial: int
    seconds: float
    task: int | None = None
    gain_s: float = 0.0


def largest(points: list[Fall], limit: int) -> list[Fall]:
    """At most ``limit``: the first point, the last one, and between them the largest falls."""
    if len(points) <= limit:
        return points
    inner = sorted(points[1:-1], key=lambda fall: -fall.gain_s)[: limit - 2]
    return [points[0], *sorted(inner, key=lambda fall: fall.trial), points[-1]]


def _falls(session: Session, job: JobRow) -> list[Fall]:
    tasks = (
        select(TaskRow.id, TaskRow.weight, RecordRow.ranking_s)
        .outerjoin(RecordRow, RecordRow.id == TaskRow.recommended_id)
        .where(TaskRow.job_id == job.id, TaskRow.weight > 0)
    )
    found = session.execute(tasks).all()
    weights = {row.id: row.weight for row in found}
    untuned = {row.id: row.ranking_s for row in found if row.ranking_s is not None}
    # Trials are counted from one that leads to the next: an index has them in order.
    before = func.lag(TrialRow.id, 1, 0).over(order_by=TrialRow.id).label("before")
    steps = select(TrialRow.id, before).where(TrialRow.job_id == job.id, LEADS).subquery()
    trial = aliased(TrialRow)
    between = select(func.count()).where(
        trial.job_id == job.id, trial.id > steps.c.before, trial.id <= steps.c.id
    )
    query = select(steps.c.id, between.scalar_subquery()).order_by(steps.c.id)
    passed = session.execute(query).all()
    counts = dict(zip((id_ for id_, _ in passed), accumulate(more for _, more in passed), strict=True))
    leaders = session.execute(views.leaders_of(job.id).order_by(TrialRow.id))
    trials = ((counts[id_], task, seconds) for id_, task, _, seconds in leaders)
    last = session.execute(select(func.count()).where(TrialRow.job_id == job.id)).scalar_one()
    return falls(weights, untuned, trials, last)


def falls(
    weights: dict[int, int],
    untuned: dict[int, float],
    trials: Iterable[tuple[int, int, float | None]],
    count: int,
) -> list[Fall]:
    """Wherever the sum of weight times best fell, and the last of ``count`` trials.

    ``untuned`` is what tasks begin with, in seconds, as far as it is known. ``trials`` are (how many there
    were by then, task, seconds or None where it failed) in the order in which they ended, at least those that
    lead; those of tasks that are not weighted are left out.
    """
    best = {task: untuned.get(task, math.inf) for task in weights}
    points: list[Fall] = []
    if best and all(map(math.isfinite, best.values())):
        points.append(Fall(0, sum(weight * best[task] for task, weight in weights.items())))
    for at, task, cost in trials:
        if cost is None or cost >= best.get(task, 0.0):
            continue
        gain_s = weights[task] * (best[task] - cost)
        best[task] = cost
        total = sum(weight * best[each] for each, weight in weights.items())
        if math.isfinite(total):
            points.append(Fall(at, total, task, gain_s) if points else Fall(at, total))
    if points and points[-1].trial < count:
        points.append(Fall(count, points[-1].seconds))
    return points
