"""``insert ... on conflict`` in the dialect of a session."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from server.db.tables import Base


def insert(session: Session, table: type[Base]) -> Any:
    """An insert that knows ``on_conflict_do_nothing``; both dialects spell it alike, with no common type."""
    name = session.get_bind().dialect.name
    # The bare table: the ORM's bulk insert would make one statement for each set of non-null columns.
    into = cast(Table, table.__table__)
    return sqlite.insert(into) if name == "sqlite" else postgresql.insert(into)
