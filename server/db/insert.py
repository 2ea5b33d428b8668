"""``insert ... on conflict`` in the dialect of a session."""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from server.db.tables import Base


def insert(session: Session, table: type[Base]) -> Any:
    """An insert that knows ``on_conflict_do_nothing``; both dialects spell it alike, with no common type."""
    name = session.get_bind().dialect.name
    return sqlite.insert(table) if name == "sqlite" else postgresql.insert(table)
