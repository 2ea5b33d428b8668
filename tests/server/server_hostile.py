"""Functions that fail, for disposable children."""

from __future__ import annotations

import ctypes
import time
from typing import Any


def hang(payload: Any) -> None:
    time.sleep(3600)


def segfault(payload: Any) -> None:
    ctypes.string_at(0)


def hoard(payload: Any) -> None:
    hoarded = []
    while True:
        hoarded.append(bytes(64 << 20))


def raise_(payload: Any) -> float:
    return 1 / 0


globals()["raise"] = raise_
