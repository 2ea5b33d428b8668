"""What fails because this machine, or this process, has no more of something: no fault of any board."""

from __future__ import annotations

import errno

_OWN = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
PAUSE_S = 2.0
"""Between two tries."""


class Shortage(RuntimeError):
    """This machine has no descriptors or no memory left."""


def shortage(error: BaseException) -> Shortage | None:
    """That ``error`` comes of one; None for any other."""
    if isinstance(error, Shortage):
        return error
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _OWN):
        return Shortage(f"this machine is short of descriptors or memory: {type(error).__name__}: {error}")
    return None
