"""The trials that curves go through: each was the fastest of its task when it came, by number or in time.

Quiet and disturbed times are apart, as the disturbed count only where there are no quiet ones. What is marked
may be more than what a curve shows, never less: curves of a job with a hundred thousand trials read some
hundred of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Select, select, text, update
from sqlalchemy.orm import Session

from server.db.tables import JobRow, RecordRow, TrialRow

LEADS = text("trials.leads")
"""Written out: a partial index serves only what says its condition word by word."""
_AT_ONCE = 500


class Place(NamedTuple):
    """A trial: its row, its number in the task, and what was measured, None where it failed."""

    id: int
    number: int
    seconds: float | None
    disturbed: bool


def ahead(trial: Place, leaders: Iterable[Place]) -> bool:
    """Whether the last trial of a task leads, beside those that lead already.

    Who is faster than all is faster than those with lower numbers, so these decide for both orders.
    """
    return trial.seconds is not None and all(
        trial.seconds < (each.seconds or math.inf)
        for each in leaders
        if each.number < trial.number and each.disturbed == trial.disturbed
    )


def leading(trials: Sequence[Place]) -> set[int]:
    """The ids of those of a task's trials that lead by number, or in the order in which they ended."""
    found = set()
    for order in (attrgetter("number"), attrgetter("id")):
        best: dict[bool, float] = {}
        for trial in sorted(trials, key=order):
            if trial.seconds is not None and trial.seconds < best.get(trial.disturbed, math.inf):
                best[trial.disturbed] = trial.seconds
                found.add(trial.id)
    return found


def of_tasks(session: Session, tasks: Collection[int]) -> dict[int, list[Place]]:
    """The trials that lead each of these tasks."""
    found: dict[int, list[Place]] = {task: [] for task in tasks}
    query = _places(TrialRow.task_id).where(TrialRow.task_id.in_(tasks), LEADS)
    for *place, task in session.execute(query):
        found[task].append(Place(*place))
    return found


def mark_anew(session: Session, task: int) -> None:
    """Mark the trials of a task again, after records of it have changed."""
    trials = {}
    marked = set()
    for *place, leads in session.execute(_places(TrialRow.leads).where(TrialRow.task_id == task)):
        trial = Place(*place)
        trials[trial.id] = trial
        if leads:
            marked.add(trial.id)
    right = leading(list(trials.values()))
    for leads, ids in ((True, sorted(right - marked)), (False, sorted(marked - right))):
        for start in range(0, len(ids), _AT_ONCE):
            some = update(TrialRow).where(TrialRow.id.in_(ids[start : start + _AT_ONCE]))
            session.execute(some.values(leads=leads).execution_options(synchronize_session=False))


def _places(*more: Any) -> Select[Any]:
    """Trials by the clocks of their jobs."""
    return (
        select(TrialRow.id, TrialRow.number, RecordRow.ranking_s, RecordRow.disturbed, *more)
        .join(RecordRow, RecordRow.id == TrialRow.record_id)
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(RecordRow.clock == JobRow.clock)
    )
