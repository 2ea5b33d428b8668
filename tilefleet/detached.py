"""Starting the service in the background: it comes back when the service answers."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from os import SEEK_END
from pathlib import Path

from tilefleet.errors import TilefleetError
from worker.private_folder import keep_private, private_file

LOOK_S = 0.1
KEPT_BYTES = 1 << 20
"""Of what a former server said; more than enough to see how it ended."""
_ERROR = "tilefleet: "
UP = "Tilefleet is up at "
"""How the line begins that says where."""


def start(arguments: Sequence[str], home: Path, say: Callable[[str], None]) -> None:
    """Run ``tilefleet up`` with ``arguments`` in a session of its own, until it answers.

    What it says goes to ``up.log`` in ``home``, after the end of what was there, and until then to ``say``,
    too. Raises TilefleetError with
    its last words when it ends before that. Interrupted, it ends what it started.
    """
    keep_private(home)
    log = home / "up.log"
    shorten(log)
    with open(log, "a", opener=private_file) as out, log.open() as lines:
        lines.seek(0, SEEK_END)
        server = subprocess.Popen(
            [sys.executable, "-P", "-m", "tilefleet", "up", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        last = ""
        try:
            while True:
                ended = server.poll() is not None
                while raw := lines.readline():
                    line = raw.rstrip()
                    if line.startswith(UP):
                        say(line.replace("stop: Ctrl-C", "stop: tilefleet stop"))
                        return
                    last = line or last
                    if not line.startswith(_ERROR):
                        say(line)
                if ended:
                    raise TilefleetError(last.removeprefix(_ERROR) or f"it did not start: see {log}")
                time.sleep(LOOK_S)
        except KeyboardInterrupt:
            server.terminate()
            server.wait()
            raise


def shorten(log: Path) -> None:
    """Keep the last lines of a log that has twice as many, in place: somebody may still write to it."""
    if not log.exists() or log.stat().st_size <= 2 * KEPT_BYTES:
        return
    with log.open("r+b") as file:
        file.seek(-KEPT_BYTES, SEEK_END)
        _, _, lines = file.read().partition(b"\n")
        file.seek(0)
        file.write(lines)
        file.truncate()
