"""The canonical JSON of a workload, and its hash: the workload's name everywhere."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any

YOUNGER = ("activation", "late")
"""Fields of an epilogue that are left out where they say nothing, so that older names stay what they are; so
is ``rounded`` of a product by narrow weights."""


def to_json(workload: Any) -> dict[str, Any]:
    """A dataclass with a ``kind`` as plain JSON values; what None means is left to its reader."""
    values: dict[str, Any] = json.loads(_text_of(workload))
    return values


@lru_cache(maxsize=4096)  # lists of records ask for the same few again and again
def _text_of(workload: Any) -> str:
    values = asdict(workload)
    for name in YOUNGER:
        if not values.get("epilogue", {}).get(name, True):
            del values["epilogue"][name]
    if not values.get("rounded", True):
        del values["rounded"]
    return json.dumps({"kind": workload.kind, **values})


@lru_cache(maxsize=4096)
def key_of(workload: Any) -> str:
    """16 hex digits of the SHA-256 of the canonical JSON."""
    text = json.dumps(to_json(workload), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def require_positive(workload: Any, *names: str) -> None:
    """Raises ValueError that names the first of the fields below one."""
    for name in names:
        value = getattr(workload, name)
        if value < 1:
            raise ValueError(f"{workload.kind} {name} must be a positive integer, got {value!r}")
