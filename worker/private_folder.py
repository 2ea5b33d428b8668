"""Folders of one user alone."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def keep_private(folder: Path) -> None:
    """Make a folder that nobody else can look into, or close one that is there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(PermissionError):  # another user's, who has decided that
        folder.chmod(0o700)


def private_file(path: str, flags: int) -> int:
    """For ``open``'s ``opener``: what it makes is this user's alone from the first moment on."""
    return os.open(path, flags, 0o600)
