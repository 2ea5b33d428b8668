"""One server a state folder: the lock that says which, and stops it."""

from __future__ import annotations

import fcntl
import os
import platform
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tilefleet.errors import TilefleetError

NAME = "up.lock"


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Hold the state folder ``home`` for this process; the lock goes with the process, however that ends.

    Raises TilefleetError when another has it.
    """
    with (home / NAME).open("a+") as lock:
        if not _take(lock.fileno()):
            raise TilefleetError(
                f"another `tilefleet up` runs with the state in {home}; set TILEFLEET_HOME for a second one"
            )
        lock.truncate(0)
        lock.write(f"{platform.node()} {os.getpid()}\n")
        lock.flush()
        yield


def stop(home: Path, patience_s: float = 120.0) -> int:
    """End the server that has ``home`` in good order; its process id, once it has ended.

    Raises TilefleetError when there is none, when it runs on another machine, and when it does not end in
    ``patience_s`` seconds.
    """
    try:
        lock = (home / NAME).open("r+")
    except FileNotFoundError:
        raise TilefleetError(f"no server runs with the state in {home}") from None
    with lock:
        if _take(lock.fileno()):
            raise TilefleetError(f"no server runs with the state in {home}")
        host, _, pid = lock.read().strip().rpartition(" ")
        if host != platform.node() or not pid.isdecimal():
            raise TilefleetError(f"the server with the state in {home} runs on {host or 'another machine'}")
        # It holds the lock, so this is its number and nobody else's.
        os.kill(int(pid), signal.SIGTERM)
        deadline = time.monotonic() + patience_s
        while not _take(lock.fileno()):
            if time.monotonic() > deadline:
                raise TilefleetError(f"the server, process {pid}, has not ended after {patience_s:.0f} s")
            time.sleep(0.1)
    return int(pid)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
