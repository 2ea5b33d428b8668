"""JSON in the database, which may hold anything: whoever repairs a database by hand writes into it."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import ColumnElement, case, func
from sqlalchemy.orm import Session

from server.db.tables import RecordRow

UNREADABLE = "cannot be read"
"""The one name in what stands for a text that is no JSON: a document that lacks all that any needs."""


def decoded(text: str | bytes) -> Any:
    """The value of a JSON text. One that cannot be read fails no query: whoever needs what is in it finds
    that missing, as of any other damaged document."""
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        return {UNREADABLE: f"{type(error).__name__}: {error}"}


def of_record(session: Session, part: ColumnElement[Any]) -> ColumnElement[Any]:
    """A ``part`` of a record's document for a query, NULL where the text is no JSON; PostgreSQL has none."""
    if session.get_bind().dialect.name != "sqlite":
        return part
    return case((func.json_valid(RecordRow.document) == 1, part), else_=None)
