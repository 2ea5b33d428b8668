"""Repair values that somebody wrote into the database by hand and that do not fit their columns.

It is read all the same (``server/db/columns.py``), but sorts, sums and filters in the database see it as it
is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, Table, and_, delete, select, text, type_coerce, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.types import NullType

from server.db.columns import Sound
from server.db.database import Database
from server.db.tables import Base, RecordRow
from server.records import bests, forgetting, repository, told

_BATCH = 2000
_RECORDS = RecordRow.__tablename__
Key = tuple[Any, ...]


def mend(db: Database) -> Counter[str]:
    """Repair the database in one transaction; how many of each kind were repaired.

    A value that does not fit becomes the one that it reads as, or NULL where the column allows that. The
    columns of a record are made of its document again. Rows that then refer to nothing are deleted, and what
    boards said of themselves that cannot be: the next job measures it again.
    """
    done: Counter[str] = Counter()
    found = [(table, *each) for table in Base.metadata.sorted_tables for each in _damaged(db, table)]
    with db.write() as session:
        if db.sqlite:
            session.execute(text("pragma defer_foreign_keys = on"))
        for table, key, wrong in found:
            done += (_record if table.name == _RECORDS else _row)(session, table, key, wrong)
        for fact in told.passed_over(session):
            session.delete(fact)
            done[f"rows of {fact.__tablename__} deleted"] += 1
        session.flush()
        while db.sqlite and (orphans := session.execute(text("pragma foreign_key_check")).all()):
            for table_name, row in {(each[0], each[1]) for each in orphans}:
                session.execute(text(f'delete from "{table_name}" where rowid = :row'), {"row": row})
                done[f"rows of {table_name} deleted"] += 1
    return done


def _damaged(db: Database, table: Table) -> Iterator[tuple[Key, list[Column[Any]]]]:
    """The keys of rows with columns that cannot be, and these."""
    typed = [column for column in table.columns if isinstance(column.type, Sound)]
    keys = list(table.primary_key.columns)
    query = select(*(type_coerce(column, NullType()) for column in (*keys, *typed)))
    with db.engine.connect() as connection:
        rows = connection.execution_options(yield_per=_BATCH).execute(query)
        for row in rows:
            values = row[len(keys) :]
            wrong = [
                column for column, value in zip(typed, values, strict=True) if not _can_be(column, value)
            ]
            if wrong:
                yield tuple(row[: len(keys)]), wrong


def _can_be(column: Column[Any], value: Any) -> bool:
    try:
        if value is not None:
            column.type.read(value)  # type: ignore[attr-defined]  # a Sound
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def _is(table: Table, key: Key) -> Any:
    columns = table.primary_key.columns
    return and_(*(type_coerce(each, NullType()) == value for each, value in zip(columns, key, strict=True)))


def _row(session: Session, table: Table, key: Key, wrong: list[Column[Any]]) -> Counter[str]:
    if any(column.primary_key for column in wrong) or not _written(session, table, key, _right(wrong)):
        session.execute(delete(table).where(_is(table, key)))
        return Counter({f"rows of {table} deleted": 1})
    return Counter(f"{table}.{column.name}" for column in wrong)


def _record(session: Session, table: Table, key: Key, wrong: list[Column[Any]]) -> Counter[str]:
    """What a record is found by follows from its document."""
    found = session.execute(repository.with_documents().where(table.c.id == key[0])).first()
    record = repository.read(*found[1:]) if found else "its workload or target is gone"
    if isinstance(record, str) or not _written(
        session, table, key, {**_right(wrong), **repository.columns(record)}
    ):
        forgetting.delete_all(session, [key[0]])
        return Counter({"records deleted": 1})
    bests.changed(session, [key[0]])
    return Counter({"records": 1})


def _right(wrong: list[Column[Any]]) -> dict[str, Any]:
    return {each.name: None if each.nullable else each.type.otherwise for each in wrong}  # type: ignore[attr-defined]


def _written(session: Session, table: Table, key: Key, values: dict[str, Any]) -> bool:
    """Whether a row can have these values; False where there is another one of the same."""
    try:
        with session.begin_nested():
            session.execute(update(table).where(_is(table, key)).values(values))
    except IntegrityError:
        return False
    return True
