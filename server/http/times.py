"""Times that requests give."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import AfterValidator


def _in_utc(value: datetime) -> datetime:
    """The same time in UTC, where one without a zone is meant to be. Raises ValueError."""
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("that time is outside of the years 1 to 9999 in UTC") from None


InUtc = AfterValidator(_in_utc)
"""Makes a field of a request a time in UTC that can be computed with."""
