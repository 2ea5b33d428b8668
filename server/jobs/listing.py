"""Which jobs a list has, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal, or_, select, tuple_
from sqlalchemy.orm import Session

from server.db.columns import Utc
from server.db.tables import JobRow, LabelRow, ModelRow, TargetRow
from server.http.problems import invalid
from server.jobs.order import Order
from server.jobs.schemas import LabelCount
from tuner.states import JobState

_COLUMNS: dict[Order, ColumnElement[Any]] = {
    Order.NAME: func.lower(JobRow.name),
    Order.MODEL: func.lower(func.coalesce(ModelRow.name, "")),
    Order.TARGET: func.lower(TargetRow.name),
    Order.STATE: JobRow.state.expression,
    Order.ELAPSED: JobRow.elapsed_s.expression,
    # What has not ended will be the last to.
    Order.FINISHED: func.coalesce(JobRow.finished, literal(datetime.max.replace(tzinfo=UTC), Utc)),
}


@dataclass(frozen=True)
class Wanted:
    """What a list is to have: all that is given must be so."""

    states: Sequence[JobState] = ()
    target: str | None = None
    model: str | None = None
    labels: Sequence[str] = ()
    search: str | None = None

    def of(self, query: Select[Any]) -> Select[Any]:
        """``query`` of jobs, restricted."""
        query = query.join(TargetRow, TargetRow.key == JobRow.target_key)
        query = query.outerjoin(ModelRow, ModelRow.hash == JobRow.model_hash)
        if self.states:
            query = query.where(JobRow.state.in_([state.value for state in self.states]))
        if self.target is not None:
            query = query.where(TargetRow.name == self.target)
        if self.model is not None:
            named = ModelRow.name == self.model
            query = query.where(or_(named, ModelRow.hash.startswith(self.model, autoescape=True)))
        for label in self.labels:
            query = query.where(_labelled(LabelRow.label == label))
        for word in (self.search or "").split():
            texts = (JobRow.name, JobRow.submitter, ModelRow.name, TargetRow.name, JobRow.strategy)
            found = [text.icontains(word, autoescape=True) for text in texts]
            found.append(_labelled(LabelRow.label.icontains(word, autoescape=True)))
            if word.isascii() and word.isdigit() and len(word) < 19:
                found.append(JobRow.id == int(word))
            query = query.where(or_(*found))
        return query


def _labelled(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return select(LabelRow.job_id).where(LabelRow.job_id == JobRow.id, condition).exists()


def count(session: Session, wanted: Wanted) -> int:
    """How many there are."""
    found: int = session.execute(wanted.of(select(func.count()).select_from(JobRow))).scalar_one()
    return found


def rows(
    session: Session, wanted: Wanted, order: Order, down: bool, after: int | None, limit: int
) -> Sequence[JobRow]:
    """Rows of jobs from behind job ``after``, by ``order``, and where that is the same by their ids."""
    keys: list[ColumnElement[Any]] = [JobRow.id.expression]
    if order in _COLUMNS:
        keys.insert(0, _COLUMNS[order])
    query = wanted.of(select(JobRow)).order_by(*(key.desc() if down else key.asc() for key in keys))
    if after is not None:
        here = tuple_(*keys)
        place = [after] if len(keys) == 1 else _place(session, keys, after)
        query = query.where(here < tuple_(*place) if down else here > tuple_(*place))
    return session.execute(query.limit(limit)).scalars().all()


def _place(session: Session, keys: list[ColumnElement[Any]], job: int) -> list[Any]:
    """What job ``job`` has of ``keys``; a 422 problem when it is gone."""
    found = session.execute(Wanted().of(select(*keys)).where(JobRow.id == job)).one_or_none()
    if found is None:
        detail = f"there is no job {job} to go on behind: it was deleted meanwhile; begin at the first page"
        raise invalid(detail, "query", "after")
    return list(found)


def labels(session: Session) -> list[LabelCount]:
    """All labels with how many jobs have each, in order."""
    query = select(LabelRow.label, func.count()).group_by(LabelRow.label).order_by(LabelRow.label)
    return [LabelCount(label=label, jobs=jobs) for label, jobs in session.execute(query)]


def set_labels(session: Session, job: int, wanted: set[str]) -> None:
    """Give a job these labels and no others."""
    there = select(LabelRow).where(LabelRow.job_id == job)
    for row in session.execute(there).scalars().all():
        if row.label not in wanted:
            session.delete(row)
    known = set(session.execute(select(LabelRow.label).where(LabelRow.job_id == job)).scalars())
    session.add_all(LabelRow(job_id=job, label=label) for label in wanted - known)
