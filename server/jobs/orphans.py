"""Jobs that no process runs: those of dead coordinators, which another or the next one takes up."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from server import ownership
from server.db.database import Database
from server.db.tables import JobRow, now
from server.jobs.service import Jobs
from server.jobs.store import put_down
from tuner.spec import JobSpec
from tuner.states import JobState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class News:
    """What this process learns of jobs when it gives its sign of life."""

    taken: list[JobSpec] = field(default_factory=list)
    """Jobs that are its own from now on, queued."""
    ended: dict[int, JobState] = field(default_factory=dict)
    """Jobs of dead processes that do not go on."""
    cancelled: list[int] = field(default_factory=list)
    """Jobs of its own that somebody wants to end, maybe by another process."""
    lost: list[int] = field(default_factory=list)
    """Jobs that it runs and another process has."""


class Orphans:
    """Finds jobs that nobody runs, and takes them up; with ``resume`` false they become ``interrupted``."""

    def __init__(self, db: Database, jobs: Jobs, resume: bool = True) -> None:
        self._db, self._jobs, self._resume = db, jobs, resume
        self._signs = ownership.Signs()
        self._strays: set[int] = set()
        """Jobs with this process's name that it did not run at its last sign of life."""

    def look(self, mine: Collection[int]) -> News:
        """Give a sign of life and look for news; ``mine`` are the jobs that this process has."""
        with self._db.write() as session:
            ownership.beat(session)
            dead = self._signs.dead(session)
            query = select(JobRow.id, JobRow.owner, JobRow.state).where(JobRow.state.in_(ownership.ALIVE))
            found = {row.id: (row.owner, row.state) for row in session.execute(query)}
        own = {id_ for id_, (owner, _) in found.items() if owner == ownership.me()}
        news = News(
            cancelled=[id_ for id_ in own if found[id_][1] == JobState.CANCELLING and id_ in mine],
            lost=[id_ for id_ in mine if id_ in found and id_ not in own],
        )
        # A job is a row shortly before it is the manager's, hence the second look.
        strays, self._strays = self._strays & own - set(mine), own - set(mine)
        for id_, (owner, _) in found.items():
            if owner is None or owner in dead or id_ in strays:
                self._take(id_, owner, news)
        return news

    def _take(self, job_id: int, owner: str | None, news: News) -> None:
        """Take a job up, unless another process was faster, or end it."""
        try:
            with self._db.write() as session:
                row = self._locked(session, job_id, owner)
                if row is None:
                    return
                if row.state == JobState.CANCELLING:
                    _end(session, row, JobState.CANCELLED, "")
                elif not self._resume:
                    message = "the process that ran it ended; resume goes on where it was"
                    _end(session, row, JobState.INTERRUPTED, message)
                elif reason := self._jobs.why_not_here(session, row):
                    message = f"the process that ran it ended, and none can go on with it: {reason}"
                    row.state, row.owner, row.message = JobState.QUEUED.value, None, message
                else:
                    news.taken.append(self._jobs.queue(session, row))
                if row.finished is not None:
                    news.ended[job_id] = JobState(row.state)
        except DBAPIError:
            raise
        except Exception as error:  # one that cannot be read must not keep the others from going on
            log.exception("job %d cannot be taken up", job_id)
            with self._db.write() as session:
                if row := self._locked(session, job_id, owner):
                    _end(session, row, JobState.FAILED, f"{type(error).__name__}: {error}")
                    news.ended[job_id] = JobState.FAILED

    def _locked(self, session: Session, job_id: int, owner: str | None) -> JobRow | None:
        whose = JobRow.owner.is_not_distinct_from(owner)
        query = select(JobRow).where(JobRow.id == job_id, JobRow.state.in_(ownership.ALIVE), whose)
        return session.execute(query.with_for_update(skip_locked=True)).scalar_one_or_none()


def _end(session: Session, row: JobRow, state: JobState, message: str) -> None:
    row.state, row.message, row.owner, row.finished = state.value, message, None, now()
    put_down(session, row.id)
