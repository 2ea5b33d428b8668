"""How many files and sockets this process may have open."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_limit() -> int:
    """Raise the limit to the hard one, which is what a service is given for that; how many it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS has a hard limit that cannot be had
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft
