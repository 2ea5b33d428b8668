"""Reading files that an operator names: a FIFO, a device or a huge file is refused, not waited for."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 20


def read_small(path: Path) -> bytes:
    """What is in a regular file of at most ``MOST_BYTES``; raises OSError for what is none."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "no file has a NUL in its name", str(path))
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if found.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, f"it is larger than {MOST_BYTES >> 20} MB", str(path))
        return file.read(MOST_BYTES)
