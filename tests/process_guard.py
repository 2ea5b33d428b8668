"""Ends what a test run leaves behind: ``python tests/process_guard.py MARK`` waits for its input to close.

That happens when the run ends, however it is killed. All processes that a run starts have ``MARK`` in the
environment that they were started with, whatever sessions and groups they made for themselves.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

GRACE_S = 5.0
"""What ends by itself when its starter is gone has this long."""


def marked(mark: str) -> list[int]:
    """The processes with ``mark`` in their environment, without this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in entry.read_bytes() and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
        except OSError:  # gone, or another user's
            continue
    return found


def main(mark: str) -> None:
    """Wait for the end of the run, then for what it started."""
    sys.stdin.read()
    deadline = time.monotonic() + GRACE_S
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in marked(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main(sys.argv[1])
