"""Which process runs a job, and what becomes of the jobs of a process that died."""

from __future__ import annotations

import socket
from datetime import timedelta
from functools import cache

import psutil
from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.orm import Session

from server.db.tables import JobRow, now
from tuner.states import JobState

BEAT_S = 10.0
STALE_S = 60.0
ALIVE = (JobState.QUEUED.value, JobState.RUNNING.value, JobState.CANCELLING.value)


@cache
def me() -> str:
    """This process: host, process id, and start time, since process ids come again."""
    process = psutil.Process()
    return f"{socket.gethostname()}/{process.pid}/{process.create_time():.2f}"


def beat(session: Session) -> None:
    """Give a sign of life for the jobs of this process."""
    mine = (JobRow.owner == me(), JobRow.state.in_(ALIVE))
    session.execute(update(JobRow).where(*mine).values(beat=now()))


def release_dead(session: Session) -> dict[int, JobState]:
    """Mark the jobs of dead processes ``interrupted``, or ``cancelled`` if that was asked; returns those.

    A process of this host is dead when it is gone, any other when it has given no sign of life for a while.
    """
    owners = session.execute(select(JobRow.owner).where(JobRow.state.in_(ALIVE)).distinct()).scalars()
    vanished = [owner for owner in owners if owner is not None and gone(owner)]
    dead: ColumnElement[bool] = or_(
        JobRow.owner.is_(None), JobRow.owner.in_(vanished), JobRow.beat < now() - timedelta(seconds=STALE_S)
    )
    query = select(JobRow).where(JobRow.state.in_(ALIVE), JobRow.owner.is_distinct_from(me()), dead)
    released = {}
    for row in session.execute(query.with_for_update()).scalars():
        cancelled = row.state == JobState.CANCELLING.value
        state = JobState.CANCELLED if cancelled else JobState.INTERRUPTED
        row.message = "" if cancelled else "the process that ran it ended; resume goes on where it was"
        row.state, row.owner, row.finished = state.value, None, now()
        released[row.id] = state
    return released


def gone(owner: str) -> bool:
    """Whether ``owner`` (see ``me``) is a process of this host that is no more."""
    host, _, process = owner.partition("/")
    pid, _, created = process.partition("/")
    if host != socket.gethostname() or owner == me():
        return False
    try:
        return f"{psutil.Process(int(pid)).create_time():.2f}" != created
    except psutil.Error:
        return True
