"""Whether a disk is full."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from worker.children.nursery import Flag

T = TypeVar("T")
LEAST_BYTES = 1 << 20
"""With less than that hardly a file can be written."""
SPACE_S = 1.0
"""Between two tries while the disk is full."""
SAID = ("No space left on device", "Disk quota exceeded")


def full_disk(folder: Path) -> str:
    """Says that the disk with ``folder`` is full; empty when it is not."""
    try:
        full = shutil.disk_usage(folder).free < LEAST_BYTES
    except OSError:
        return ""
    return f"the disk with {folder} is full: free some of it" if full else ""


def for_want_of_space(message: str) -> bool:
    """Whether that was what failed."""
    return any(said in message for said in SAID)


def with_room(write: Callable[[], T], given_up: Flag | None) -> T | None:
    """What ``write()`` returns, tried again while the disk is full; None once ``given_up`` is set."""
    while True:
        try:
            return write()
        except OSError as error:
            if not for_want_of_space(str(error)):
                raise
        if given_up is not None and given_up.is_set():
            return None
        time.sleep(SPACE_S)
