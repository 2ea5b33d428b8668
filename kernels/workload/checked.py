"""Reading dataclasses from JSON that came from outside: every type is checked, unknown fields are refused."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

T = TypeVar("T")

_ADAPTERS: dict[type, TypeAdapter[Any]] = {}

STRICT_FIELDS = ConfigDict(extra="forbid")
"""Set as ``__pydantic_config__`` of a dataclass that is read from outside."""


def read(kind: type[T], value: Any, name: str) -> T:
    """``value`` as a ``kind``; raises ValueError with the first thing that is wrong, after ``name``."""
    try:
        if kind not in _ADAPTERS:
            _ADAPTERS[kind] = TypeAdapter(kind)
        checked: T = _ADAPTERS[kind].validate_python(value)
        return checked
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        given = "" if first["type"] in ("missing", "value_error") else f", got {first['input']!r:.80}"
        raise ValueError(
            f"{name} {where}: {message}{given}" if where else f"{name}: {message}{given}"
        ) from None
