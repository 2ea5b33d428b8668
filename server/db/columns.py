"""Types of columns, the same for SQLite and PostgreSQL.

SQLite takes anything in any column, and whoever repairs a database by hand writes into it. What cannot be
reads as what its type has for that, so that it fails no query; ``server/db/mending.py`` writes that in its
place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import BigInteger, Boolean, DateTime, Dialect, Float, Integer, String, Text, TypeDecorator
from sqlalchemy.types import TypeEngine

# SQLite counts rows only in a column that is exactly INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")
_EPOCH, _END_S = datetime(1970, 1, 1, tzinfo=UTC), 253_370_764_800  # the year 9999
log = logging.getLogger(__name__)


class Sound(TypeDecorator[Any]):
    """A type that reads as ``otherwise`` what ``read`` raises an error for."""

    impl: Any = Text
    cache_ok = True

    def __init__(self, stored: TypeEngine[Any], otherwise: Any) -> None:
        super().__init__()
        self.impl = self.impl_instance = stored
        self.otherwise = otherwise

    def read(self, value: Any) -> Any:
        """Check a stored value, never None, and return it; raises ValueError or TypeError for a bad one."""
        raise NotImplementedError  # each type below has its own

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Pass what the driver returns through ``read``."""

        def process(value: Any) -> Any:
            if value is None:
                return None
            try:
                return self.read(value)
            except (ValueError, TypeError, OverflowError):
                log.warning("%.80r in the database cannot be: it reads as %r", value, self.otherwise)
                return self.otherwise

        return process


class Whole(Sound):
    """A whole number from ``least`` to ``most``."""

    cache_ok = True

    def __init__(
        self, otherwise: int | None = None, least: int = -(2**63), most: int = 2**63 - 1, *, big: bool = False
    ) -> None:
        super().__init__(BigInteger() if big else Integer(), otherwise)
        self.least, self.most, self.big = least, most, big

    def read(self, value: Any) -> int:
        """See ``Sound.read``; PostgreSQL's sums are decimals."""
        if (type(value) is int or type(value) is Decimal) and self.least <= value <= self.most:
            return int(value)
        raise ValueError


class Real(Sound):
    """A quantity from ``least`` to ``most``, never NaN."""

    cache_ok = True

    def __init__(self, otherwise: float | None = None, least: float = 0.0, most: float = 1e18) -> None:
        super().__init__(Float(53), otherwise)
        self.least, self.most = least, most

    def read(self, value: Any) -> float:
        """See ``Sound.read``."""
        if (type(value) is float or type(value) is int) and self.least <= value <= self.most:
            return float(value)
        raise ValueError


class Flag(Sound):
    """A truth."""

    cache_ok = True
    coerce_to_is_types = (type(None), bool)  # so that IS FALSE is one

    def __init__(self, otherwise: bool = False) -> None:
        super().__init__(Boolean(), otherwise)

    def read(self, value: Any) -> bool:
        """See ``Sound.read``."""
        if value is True or value is False or (type(value) is int and value in (0, 1)):
            return bool(value)
        raise ValueError


class Word(Sound):
    """A text of at most ``length`` characters, or of any length; one of ``among``, where that is given."""

    cache_ok = True

    def __init__(
        self, length: int | None = None, otherwise: str | None = "", among: tuple[str, ...] = ()
    ) -> None:
        super().__init__(String(length) if length else Text(), otherwise)
        self.length, self.among = length, among

    def read(self, value: Any) -> str:
        """See ``Sound.read``."""
        if type(value) is str and (not self.among or value in self.among):
            return value
        raise ValueError


class Utc(Sound):
    """An aware UTC time; SQLite keeps text without a zone, so it is put back on reading."""

    cache_ok = True

    def __init__(self, otherwise: datetime | None = _EPOCH) -> None:
        super().__init__(DateTime(timezone=True), otherwise)

    def read(self, value: Any) -> datetime:
        """See ``Sound.read``."""
        at: datetime = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
        if at < _EPOCH:
            raise ValueError
        return at


Key = Word(16)
Moment = Real(0.0, most=_END_S)
"""Seconds since the epoch."""
Time = Real(least=1e-15)
"""Seconds that a kernel took."""
Threads = Whole(1, 1, 4096)
