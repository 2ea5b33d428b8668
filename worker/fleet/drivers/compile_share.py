"""How far zig is with an agent, for whoever waits: nearly all of it is the C library of its machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from worker.phases import tell_share

OBJECTS = 1078
"""Folders that zig 0.16 makes in its cache for the first agent of x86-64; other machines have as many."""
LOOK_S = 0.5
_under_way: set[object] = set()


@contextmanager
def telling_share() -> Iterator[None]:
    """Tell meanwhile how much of the C library is there, as zig's cache fills; nothing while several agents
    are built, as nobody can say whose its entries are."""
    me, ended = object(), threading.Event()
    _under_way.add(me)

    def look() -> None:
        before = _entries()
        while not ended.wait(LOOK_S):
            if _under_way != {me}:
                break
            tell_share(min(1.0, (_entries() - before) / OBJECTS))
        tell_share(None)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
        _under_way.remove(me)


def _entries() -> int:
    usual = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "zig"
    cache = Path(os.environ.get("ZIG_GLOBAL_CACHE_DIR") or usual)
    made = 0
    with suppress(FileNotFoundError), os.scandir(cache / "o") as found:
        made = sum(1 for _ in found)
    return made
