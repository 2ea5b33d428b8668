"""Types of columns, the same for SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import BigInteger, DateTime, Dialect, Integer, String, TypeDecorator

# SQLite counts rows only in a column that is exactly INTEGER.
RowId = BigInteger().with_variant(Integer, "sqlite")
Key = String(16)


class Utc(TypeDecorator[datetime]):
    """An aware UTC time; SQLite keeps no zone, so it is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Make what was read aware and UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
