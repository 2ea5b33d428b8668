"""The service's own log: nobody can fill the disk with it, or write lines of their own into it."""

from __future__ import annotations

import logging
import os
import threading
import time
from copy import copy
from pathlib import Path
from textwrap import indent

from tilefleet.detached import shorten
from tilefleet.visible import visible

MOST_A_MINUTE = 10
"""Lines of one kind."""
KINDS = 1000
LOOK_S = 5.0


class Sparing(logging.Filter):
    """Lets through a few records of one kind a minute; the first of the next says how many it left out."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[object, ...], list[float]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        raised = record.exc_info[0] if record.exc_info else None
        kind = record.name, record.levelno, str(record.msg).partition("\n")[0][:100], raised
        now = time.monotonic()
        with self._lock:
            if kind not in self._seen and len(self._seen) >= KINDS:
                self._seen.clear()
            state = self._seen.setdefault(kind, [now, 0.0])
            if now - state[0] >= 60:
                left_out, state[:] = state[1] - MOST_A_MINUTE, [now, 0.0]
                if left_out > 0:
                    record.msg, record.args = f"{record.getMessage()} ({left_out:.0f} like this left out)", ()
            state[1] += 1
            return state[1] <= MOST_A_MINUTE


class Plain(logging.Formatter):
    """Writes a record in one line and its trace indented, with what boards and clients wrote made visible."""

    def __init__(self, usual: logging.Formatter | None) -> None:
        super().__init__()
        self._usual = usual or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        """What the usual formatter makes of it."""
        plain = copy(record)
        plain.msg, plain.args = visible(record.getMessage().rstrip("\n")).replace("\n", "\\n"), ()
        plain.__dict__.pop("color_message", None)  # uvicorn's, of what comes as message too
        if record.exc_info:
            plain.exc_text = indent(visible(self._usual.formatException(record.exc_info)), "  ")
        return self._usual.format(plain)


def keep_small(log: Path) -> None:
    """Spare lines in all logs of this process; where it writes to ``log``, keep that short, too."""
    sparing = Sparing()
    handlers = [logging.lastResort, *logging.root.handlers]
    for name in ("uvicorn", "uvicorn.error"):
        handlers += logging.getLogger(name).handlers
    for handler in handlers:
        if handler is not None:
            handler.addFilter(sparing)
            handler.setFormatter(Plain(handler.formatter))
    try:
        mine = log.exists() and os.path.samestat(os.fstat(2), log.stat())
    except OSError:  # no standard error
        return
    if mine:
        threading.Thread(target=_watch, args=(log,), daemon=True, name="own log").start()


def _watch(log: Path) -> None:
    while True:
        time.sleep(LOOK_S)
        shorten(log)
