"""JSON in the database, which may hold anything: whoever repairs a database by hand writes into it."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, Integer, case, cast, func, null, type_coerce
from sqlalchemy.orm import InstrumentedAttribute, Session

from server.db.columns import Time
from server.db.tables import RecordRow

T = TypeVar("T")
log = logging.getLogger(__name__)
_LARGE = re.compile(r"\d{20}|[eE]\+?\d{3}")
"""What a text has in it where a number may be larger than any that there is."""
UNREADABLE = "cannot be read"
"""The one name in what stands for a text that is no JSON: a document that lacks all that any needs."""


def decoded(text: str | bytes) -> Any:
    """The value of a JSON text. One that cannot be read fails no query: whoever needs what is in it finds
    that missing, as of any other damaged document."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        return (_CAREFUL if _LARGE.search(text) else _USUAL).decode(text)
    except (ValueError, TypeError, RecursionError) as error:
        return {UNREADABLE: f"{type(error).__name__}: {error}"}


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _whole(digits: str) -> int:
    if not -(2**63) <= (value := int(digits)) < 2**64:
        raise ValueError(f"{digits[:30]}.. has more than 64 bits")
    return value


def _finite(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise ValueError(f"{digits[:30]} is too large")
    return value


# Made once: to make one takes longer than to read a short text by it.
_USUAL = json.JSONDecoder(parse_constant=_refuse)
_CAREFUL = json.JSONDecoder(parse_constant=_refuse, parse_int=_whole, parse_float=_finite)


class DamagedError(ValueError):
    """A column of a row cannot be read."""


def checked(value: Any, of: Any, what: str) -> Any:
    """``value``, which is of the type ``of``; raises DamagedError that names it where it is not."""
    try:
        return _adapter(of).validate_python(value, strict=True)
    except ValidationError as error:
        why = (
            value[UNREADABLE] if isinstance(value, dict) and UNREADABLE in value else error.errors()[0]["msg"]
        )
        raise DamagedError(f"{what} cannot be read in the database: {why}") from None


def fitting(value: Any, of: Any, otherwise: T, what: str) -> Any | T:
    """``value`` where it is of the type ``of``, ``otherwise`` where it is not, which the log tells."""
    return readable(lambda: checked(value, of, what), otherwise, what)


def readable(read: Callable[[], T], otherwise: T, what: str) -> T:
    """What ``read`` makes of a row, or ``otherwise``: one that is damaged takes no list with it."""
    try:
        return read()
    except Exception as error:  # a row may hold anything
        log.warning("%s: %s; it is passed over", what, str(error) or type(error).__name__)
        return otherwise


@lru_cache(maxsize=32)
def _adapter(of: Any) -> TypeAdapter[Any]:
    return TypeAdapter(of)


def of_record(session: Session, part: ColumnElement[Any]) -> ColumnElement[Any]:
    """A ``part`` of a record's document for a query, NULL where the text is no JSON; PostgreSQL has none."""
    if session.get_bind().dialect.name != "sqlite":
        return part
    return case((func.json_valid(RecordRow.document) == 1, part), else_=None)


def seconds_of_record(session: Session, name: str) -> ColumnElement[Any]:
    """Seconds in a record's document for a query, whatever stands there; SQLite reads no text for it."""
    part = RecordRow.document[name]
    if session.get_bind().dialect.name != "sqlite":
        return part
    return type_coerce(of_record(session, part.as_float()), Time)


def counts_in(session: Session, document: InstrumentedAttribute[Any]) -> tuple[Any, ColumnElement[int]]:
    """The members of a document for a query, none where it is no JSON object: a table of keys, and their
    values as counts."""
    if session.get_bind().dialect.name == "sqlite":
        sound = case((func.json_valid(document) == 1, document), else_="{}")
        each = func.json_each(case((func.json_type(sound) == "object", sound), else_="{}"))
        table = each.table_valued("key", "value")
        return table, cast(table.c.value, Integer)
    sound = case((func.json_typeof(document) == "object", document), else_=null())
    table = func.json_each_text(sound).table_valued("key", "value")
    return table, case((table.c.value.regexp_match("^[0-9]{1,9}$"), cast(table.c.value, Integer)), else_=0)
