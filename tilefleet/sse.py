"""Server-Sent Events: the lines of a stream as events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel


class Event(BaseModel):
    """One event of a job: ``state``, ``trial``, ``best``, ``progress`` or ``end``."""

    id: str
    name: str
    data: dict[str, Any]


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a stream of lines without their newlines. Comments, which keep the connection alive,
    and events without data are passed over, as the standard asks.
    """
    last_id, name, data = "", "message", list[str]()
    for line in lines:
        if not line:
            if data:
                yield Event(id=last_id, name=name, data=json.loads("\n".join(data)))
            name, data = "message", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "id":
            last_id = value
