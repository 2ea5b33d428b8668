"""Deleting records that are not this lab's own, or damaged."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from server.db.tables import RecordRow, TaskRow, TrialRow
from server.http.problems import Problem
from server.records import repository
from server.records.bests import batches, choose_anew, lock_tasks


def forget_imported(session: Session) -> int:
    """Delete all records that came in logs and were not measured here since; how many these were."""
    ids = session.execute(select(RecordRow.id).where(RecordRow.imported)).scalars().all()
    return delete_all(session, ids)


def forget(session: Session, record: int) -> None:
    """Delete one record that is damaged or imported; a 404 or 409 problem where there is none such."""
    row = session.get(RecordRow, record)
    if row is None:
        raise Problem(404, f"there is no record {record}")
    damaged, _ = repository.damaged(session, record - 1, 1)
    if not row.imported and not damaged:
        raise Problem(
            409,
            f"record {record} is sound and was measured here; "
            "POST /api/v1/boards/{id}/withdraw takes back what a board should not have said",
        )
    delete_all(session, [record])


def delete_all(session: Session, ids: Iterable[int]) -> int:
    """Delete records with their places in jobs."""
    count = 0
    for batch in batches(list(ids)):
        tasks = lock_tasks(session, set(batch))
        session.execute(delete(TrialRow).where(TrialRow.record_id.in_(batch)))
        for column in (TaskRow.best_id, TaskRow.recommended_id):
            session.execute(update(TaskRow).where(column.in_(batch)).values({column: None}))
        session.execute(delete(RecordRow).where(RecordRow.id.in_(batch)))
        choose_anew(session, tasks)
        count += len(batch)
    return count
