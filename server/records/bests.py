"""The best record of each task and the trials that lead it, kept up to date with their records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.orm import Session

from server.db.tables import JobRow, RecordRow, TaskRow, TrialRow
from server.records import groups, leaders

BATCH = 500


def lock_tasks(session: Session, records: Collection[int], also: Iterable[int] = ()) -> list[int]:
    """Lock all tasks that have trials of these records, and others, and give them.

    In one order: two jobs that share records would wait for each other for ever.
    """
    having = select(TrialRow.task_id).where(TrialRow.record_id.in_(records))
    query = select(TaskRow.id).where(or_(TaskRow.id.in_(having), TaskRow.id.in_(list(also))))
    return list(session.execute(query.order_by(TaskRow.id).with_for_update()).scalars())


def choose_best(session: Session, task_id: int, new: Collection[int] | None = None) -> None:
    """Set a task's best among its trials by its job's clock; with ``new``, the records of its newest trials,
    the others are not read again: only what was best can stand against these."""
    among: tuple[ColumnElement[bool], ...] = ()
    if new is not None:
        best_id = session.get_one(TaskRow, task_id).best_id
        among = (RecordRow.id.in_([*new] if best_id is None else [*new, best_id]),)
    best = (
        select(RecordRow.id)
        .join(TrialRow, TrialRow.record_id == RecordRow.id)
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .where(TrialRow.task_id == task_id, RecordRow.ranking_s.is_not(None), RecordRow.clock == JobRow.clock)
        .where(*among)
        .order_by(*groups.RANK)
        .limit(1)
    )
    session.execute(update(TaskRow).where(TaskRow.id == task_id).values(best_id=best.scalar_subquery()))


def choose_anew(session: Session, tasks: Iterable[int]) -> None:
    """Choose the best of each of these tasks, and what leads it, after records of it have changed."""
    for task in tasks:
        choose_best(session, task)
        leaders.mark_anew(session, task)


def changed(session: Session, records: Sequence[int]) -> None:
    """Choose anew for all tasks that have trials of these records."""
    tasks: set[int] = set()
    for batch in batches(records):
        tasks.update(lock_tasks(session, set(batch)))
    choose_anew(session, sorted(tasks))


def batches(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """As many ids as one statement takes, after each other."""
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]
