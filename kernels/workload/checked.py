"""Reading dataclasses from JSON that came from outside: every type is checked, unknown fields are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

T = TypeVar("T")

_ADAPTERS: dict[type, TypeAdapter[Any]] = {}

_REMEMBERED, _SHORT = 4096, 4096
"""How many texts are remembered, and how long one may be."""

STRICT_FIELDS = ConfigDict(extra="forbid")
"""Set as ``__pydantic_config__`` of a dataclass that is read from outside."""


def read(kind: type[T], value: Any, name: str) -> T:
    """``value`` as a ``kind``; raises ValueError with the first thing that is wrong, after ``name``."""
    try:
        if kind not in _ADAPTERS:
            _ADAPTERS[kind] = TypeAdapter(kind)
        checked: T = _ADAPTERS[kind].validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        given = "" if first["type"] in ("missing", "value_error") else f", got {first['input']!r:.80}"
        raise ValueError(
            f"{name} {where}: {message}{given}" if where else f"{name}: {message}{given}"
        ) from None
    if turned := _turned(value, checked, name):
        raise ValueError(turned)
    return checked


def remembered(parse: Callable[[Any], T]) -> Callable[[Any], T]:
    """``parse`` of JSON values, once for each short text: lists of records ask for the same few many times.

    What it makes must not be changed by anybody. What it refuses is not remembered.
    """
    known: dict[str, T] = {}

    @wraps(parse)
    def from_json(value: Any) -> T:
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            return parse(value)
        found = known.get(text)
        if found is None:
            found = parse(value)
            if len(text) <= _SHORT:
                if len(known) >= _REMEMBERED:
                    known.clear()
                known[text] = found
        return found

    return from_json


_PLAIN = (bool, float, int, str, type(None))


def _turned(raw: Any, checked: Any, where: str) -> str | None:
    """What pydantic has made a number, a word or a truth of something else, or None: ``true`` is not 1."""
    if isinstance(raw, dict):
        inside = (
            checked if isinstance(checked, dict) else vars(checked) if hasattr(checked, "__dict__") else {}
        )
        pairs = [(item, inside[name], name) for name, item in raw.items() if name in inside]
    elif isinstance(raw, (list, tuple)) and isinstance(checked, (list, tuple)):
        pairs = [(one, other, "") for one, other in zip(raw, checked, strict=False)]
    else:
        number = isinstance(checked, (int, float))
        if isinstance(raw, bool) != isinstance(checked, bool) or (isinstance(raw, str) and number):
            return f"{where}: {raw!r:.80} is not of the right type"
        return None
    for item, other, name in pairs:
        if item is other or (type(item) is type(other) and type(item) in _PLAIN):
            continue  # most are: this is read for every record of a list
        if turned := _turned(item, other, f"{where} {name}" if name else where):
            return turned
    return None
