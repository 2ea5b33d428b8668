"""Small changes that make something wrong: of JSON documents, and of bytes."""

from __future__ import annotations

import json
import random
from typing import Any

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, "", "a\0b", "\ud800", "x" * 5000, "<img src=x>", "../../etc/passwd"),
    *([], {}, [[]], [None], {"": None}, [[[[[[]]]]]]),
    *(0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e-320, 1e308),
    *(float("nan"), float("inf"), float("-inf")),
)


def spoil_json(document: Any, dice: random.Random) -> Any:
    """A copy with one to three values replaced, removed, added or moved."""
    copy = json.loads(json.dumps(document))
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        _spoil_once(copy, dice)
    return copy


def _spoil_once(document: Any, dice: random.Random) -> None:
    places = list(_places(document))
    if not places:
        return
    holder, key = dice.choice(places)
    match dice.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[dice.choice(("", "x", "kind", "format", str(key).upper()))] = dice.choice(HOSTILE)
        case 2:
            other, name = dice.choice(places)
            if name in other if isinstance(other, dict) else name < len(other):
                holder[key] = json.loads(json.dumps(other[name]))
        case 3 if type(holder[key]) is int:
            holder[key] = dice.choice((holder[key] + 1, holder[key] - 1, -holder[key], holder[key] * 1000))
        case 4:
            holder[key] = str(holder[key])
        case _:
            holder[key] = dice.choice(HOSTILE)


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every value of a document, by what holds it and its key there."""
    keys = (
        document.keys() if isinstance(document, dict) else range(len(document)) if _is_list(document) else ()
    )
    found = [(document, key) for key in keys]
    for key in keys:
        found += _places(document[key])
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def spoil_bytes(data: bytes, dice: random.Random) -> bytes:
    """A copy with bytes changed, cut off, doubled, removed or zeroed."""
    copy = bytearray(data)
    if not copy:
        return dice.randbytes(8)
    at = dice.randrange(len(copy))
    size = dice.choice((1, 2, 4, 8, 64))
    match dice.randrange(6):
        case 0:
            del copy[at:]
        case 1:
            del copy[at : at + size]
        case 2:
            copy[at:at] = copy[at : at + size]
        case 3:
            copy[at : at + size] = bytes(len(copy[at : at + size]))
        case _:
            for _ in range(dice.choice((1, 1, 2, 4, 8))):
                copy[dice.randrange(len(copy))] = dice.randrange(256)
    return bytes(copy)
