"""Records by what people ask for: filtered by words and facts, and sorted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, and_, false, func, literal_column, or_, select
from sqlalchemy.orm import Session

from server.db.database import Database
from server.db.tables import FACTS, RecordRow
from server.http.problems import Problem
from server.records import words
from server.records.repository import Found, in_job, sound, with_documents
from tuner.log.record import Record

Sort = Literal["oldest", "newest", "fastest", "slowest", "highest_rate", "lowest_rate"]
_BATCH = 500
_FEW = 20
"""Workloads that are looked up one by one."""
_RARE = 2000
"""As many records, or fewer, are found by the fact that they share, and sorted then."""


@dataclass(frozen=True)
class Filter:
    """Which records; None and empty ask for nothing. ``error`` "none" and "any" are wildcards."""

    search: str | None = None
    workload: str | None = None
    target_keys: Sequence[str] | None = None
    job: int | None = None
    error: str | None = None
    kernel: str | None = None
    threads: int | None = None
    clock: str | None = None

    def conditions(self, session: Session, by_time: bool = False) -> list[ColumnElement[bool]]:
        """As conditions on rows of records, which are sorted ``by_time`` or by id."""
        if by_time and self.error not in (None, "none"):
            return [false()]  # what failed has no time
        found = self._facts(session)
        if self.workload is not None:
            found.append(RecordRow.workload_key == self.workload)
        if self.target_keys is not None:
            found.append(RecordRow.target_key.in_(self.target_keys))
        if self.job is not None:
            found.append(in_job(self.job))
        if self.error is not None:
            wildcards = {"none": RecordRow.error.is_(None), "any": RecordRow.error.is_not(None)}
            found.append(wildcards.get(self.error, RecordRow.error == self.error))
        asked = words.split(self.search)
        texts = words.texts(session) if asked else {}
        for word in asked:
            keys = list(words.having(texts, [word]))
            if len(keys) == len(texts):
                continue  # it leaves nothing out
            if kernels := [name for name in _kernels(session) if word in name.lower()]:
                found.append(or_(RecordRow.workload_key.in_(keys), RecordRow.kernel.in_(kernels)))
            elif len(keys) <= _FEW:
                found.append(RecordRow.workload_key.in_(keys))
            else:  # so many that they come soon enough in the order of the list: no index by workload
                found.append(RecordRow.workload_key.concat("").in_(keys))
        return found

    def _facts(self, session: Session) -> list[ColumnElement[bool]]:
        """Conditions by the index of a rare fact; records with a common one come soon enough in any order."""
        asked = {"kernel": self.kernel, "threads": self.threads, "clock": self.clock}
        facts = {name: value for name, value in asked.items() if value is not None}
        conditions = [getattr(RecordRow, name) == value for name, value in facts.items()]
        for name, value in facts.items():
            some = select(RecordRow.id).where(literal_column(FACTS[name]) == value)
            if len(session.execute(some.limit(_RARE + 1)).all()) <= _RARE:
                return [RecordRow.id.in_(some), *conditions]
        return conditions


def _kernels(session: Session) -> list[str]:
    """The kernels that records name, each found behind the one before in an index."""
    found: list[str] = []
    while True:
        query = select(func.min(RecordRow.kernel)).where(RecordRow.ranking_s.is_not(None))
        following = session.execute(query.where(RecordRow.kernel > found[-1]) if found else query).scalar()
        if following is None:
            return found
        found.append(following)


def _key(sort: Sort) -> ColumnElement[Any]:
    """What is sorted by."""
    if sort in ("oldest", "newest"):
        return RecordRow.id.expression
    return (RecordRow.ranking_s if sort in ("fastest", "slowest") else RecordRow.rate).expression


def page(
    session: Session, which: Filter, sort: Sort, after: int | None, limit: int
) -> tuple[list[Found], int | None, int]:
    """Up to ``limit`` records, the id of the last row looked at where there are more, and how many rows
    are left out as they are damaged.

    Sorted by a time, those without one are left out. ``after`` is the id of the last row of the page before.
    """
    key, down = _key(sort), sort in ("newest", "slowest", "highest_rate")
    base = select(RecordRow.id, key)
    query = base.where(*which.conditions(session, by_time=key is not RecordRow.id.expression))
    if key is not RecordRow.id.expression:
        query = query.where(RecordRow.ranking_s.is_not(None), key.is_not(None))
    if after is not None:
        query = query.where(_behind(session, base, key, after, down))
    order = (key.desc(), RecordRow.id.desc()) if down else (key, RecordRow.id)
    ids = [row[0] for row in session.execute(query.order_by(*order).limit(limit + 1))]
    found = dict(sound(session.execute(with_documents().where(RecordRow.id.in_(ids[:limit])))))
    shown = [(each, found[each]) for each in ids[:limit] if each in found]
    left_out = min(len(ids), limit) - len(shown)
    return shown, ids[limit - 1] if len(ids) > limit else None, left_out


def _behind(
    session: Session, base: Select[Any], key: ColumnElement[Any], after: int, down: bool
) -> ColumnElement[bool]:
    if key is RecordRow.id.expression:
        return RecordRow.id < after if down else RecordRow.id > after
    last = session.execute(base.where(RecordRow.id == after)).first()
    if last is None or last[1] is None:
        raise Problem(422, f"there is no record {after} with a time any more to go on from; begin anew")
    if down:
        return or_(key < last[1], and_(key == last[1], RecordRow.id < after))
    return or_(key > last[1], and_(key == last[1], RecordRow.id > after))


def every(db: Database, which: Filter) -> Iterator[Record]:
    """All of them, oldest first; in batches of one short session each, so a slow download holds no lock."""
    after: int | None = 0
    while after is not None:
        with db.read() as session:
            found, after, _ = page(session, which, "oldest", after, _BATCH)
        yield from (record for _, record in found)


def refuse_more(session: Session, which: Filter, most: int) -> None:
    """Raise a problem where more than ``most`` are meant."""
    query = select(RecordRow.id).where(*which.conditions(session)).offset(most).limit(1)
    if session.execute(query).first() is not None:
        raise Problem(422, f"a table has at most {most:,} records: ask for fewer, or take the log")
