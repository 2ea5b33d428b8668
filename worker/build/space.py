"""Whether a disk is full."""

from __future__ import annotations

import shutil
from pathlib import Path

LEAST_BYTES = 1 << 20
"""With less than that hardly a file can be written."""
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
