"""Which process runs a job, and which processes are dead."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path

import psutil
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from server.db.tables import JobRow, now
from tuner.states import JobState

BEAT_S = 5.0
STALE_S = 15.0
"""How long a process is watched without a sign of life before it counts as dead."""
OWNED = (JobState.RUNNING.value, JobState.CANCELLING.value)
"""States of jobs that some process runs; one that is queued is nobody's."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@cache
def me() -> str:
    """This process: host, process id, and start, since process ids come again."""
    return f"{socket.gethostname()}/{os.getpid()}/{_started(os.getpid())}"


def beat(session: Session) -> None:
    """Give a sign of life for the jobs that this process runs."""
    mine = (JobRow.owner == me(), JobRow.state.in_(OWNED))
    session.execute(update(JobRow).where(*mine).values(beat=now()))


class Signs:
    """Signs of life of other processes, by this process's own clock: theirs may differ, and any may jump."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked = clock()
        self._seen: dict[str, tuple[datetime | None, float]] = {}
        """The last sign of each owner of jobs, and since when there was none after it."""

    def dead(self, session: Session) -> set[str]:
        """Owners of jobs that are dead: those of this host when they are gone, any that fell silent."""
        theirs = (JobRow.state.in_(OWNED), JobRow.owner.is_not(None), JobRow.owner != me())
        query = select(JobRow.owner, func.max(JobRow.beat)).where(*theirs).group_by(JobRow.owner)
        found = {str(owner): last for owner, last in session.execute(query)}
        now_s = self._clock()
        if now_s - self._looked > STALE_S / 2:
            self._seen = {}  # while this process or the database stood still, nobody could be heard
        self._looked = now_s
        seen = {owner: self._seen.get(owner, (last, now_s)) for owner, last in found.items()}
        self._seen = {
            owner: (last, now_s if last != seen[owner][0] else seen[owner][1])
            for owner, last in found.items()
        }
        return {owner for owner, (_, since) in self._seen.items() if gone(owner) or now_s - since > STALE_S}


def gone(owner: str) -> bool:
    """Whether ``owner`` (see ``me``) is a process of this host that is no more."""
    host, _, process = owner.partition("/")
    pid, _, started = process.partition("/")
    if host != socket.gethostname() or owner == me():
        return False
    return not pid.isdecimal() or _started(int(pid)) != started


def _started(pid: int) -> str:
    """When a process was started, by what no change of the clock moves; empty when it is no more."""
    try:
        if _BOOT.exists():
            # After the name, which may have blanks in it: the state, and as the 20th field ticks since boot.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            return "" if fields[0] in "ZX" else f"{fields[19]}@{_BOOT.read_text()[:8]}"
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except (OSError, psutil.Error):
        return ""
