"""Jobs that no process runs: those of dead coordinators go back into the queue, for any that lives."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from server import ownership
from server.db.database import Database
from server.db.tables import JobRow, now
from server.jobs.store import put_down
from tuner.states import JobState

_INTERRUPTED = "the process that ran it ended; resume goes on where it was"


@dataclass(frozen=True)
class News:
    """What this process learns of jobs when it gives its sign of life."""

    taken: list[int] = field(default_factory=list)
    """Jobs of dead processes that wait again."""
    ended: dict[int, JobState] = field(default_factory=dict)
    """Jobs of dead processes that do not go on."""
    cancelled: list[int] = field(default_factory=list)
    """Jobs of its own that somebody wants to end, maybe by another process."""
    lost: list[int] = field(default_factory=list)
    """Jobs that it runs and that are not its own any more."""


class Orphans:
    """Finds jobs that nobody runs, and gives them back; with ``resume`` false they become ``interrupted``.

    Only jobs that run have an owner, so a look costs the same however many wait.
    """

    def __init__(self, db: Database, resume: bool = True) -> None:
        self._db, self._resume = db, resume
        self._signs = ownership.Signs()
        self._strays: set[int] = set()
        """Jobs with this process's name that it did not run at its last sign of life."""

    def look(self, mine: Collection[int]) -> News:
        """Give a sign of life and look for news; ``mine`` are the jobs that this process runs."""
        news = News()
        with self._db.write() as session:
            ownership.beat(session)
            dead = self._signs.dead(session)
            of_note = or_(JobRow.state.in_(ownership.OWNED), JobRow.id.in_(mine))
            query = select(JobRow.id, JobRow.owner, JobRow.state).where(of_note)
            found = {row.id: (row.owner, JobState(row.state)) for row in session.execute(query)}
            own = {id_ for id_, (owner, _) in found.items() if owner == ownership.me()}
            # A job is a row shortly before it is the manager's, hence the second look.
            strays, self._strays = self._strays & own - set(mine), own - set(mine)
            orphans: dict[tuple[str | None, JobState], list[int]] = {}
            for id_, (owner, state) in found.items():
                nobodys = owner is None and state.value in ownership.OWNED
                if nobodys or owner in dead or id_ in strays:
                    orphans.setdefault((owner, state), []).append(id_)
            for (owner, state), ids in orphans.items():
                to = _after(state, self._resume)
                given = _give_back(session, ids, owner, to)
                if to.final:
                    news.ended.update(dict.fromkeys(given, to))
                else:
                    news.taken.extend(given)
        news.cancelled.extend(id_ for id_ in own if found[id_][1] is JobState.CANCELLING and id_ in mine)
        news.lost.extend(id_ for id_ in mine if id_ in found and id_ not in own and not found[id_][1].final)
        return news

    def leave(self) -> None:
        """Hand back whatever this process still has: it stops."""
        with self._db.write() as session:
            for state in map(JobState, ownership.OWNED):
                query = select(JobRow.id).where(JobRow.owner == ownership.me(), JobRow.state == state.value)
                ids = list(session.scalars(query))
                _give_back(session, ids, ownership.me(), _after(state, resume=True))


def _after(state: JobState, resume: bool) -> JobState:
    """What a job becomes that its process left in ``state``."""
    if state is JobState.CANCELLING:
        return JobState.CANCELLED
    return JobState.QUEUED if resume else JobState.INTERRUPTED


def _give_back(session: Session, ids: Sequence[int], owner: str | None, to: JobState) -> list[int]:
    """Make jobs of ``owner`` nobody's; those that no other process has changed meanwhile."""
    values: dict[str, Any] = {"state": to.value, "message": "", "owner": None, "beat": None}
    if to.final:
        values["finished"] = now()
    if to is JobState.INTERRUPTED:
        values["message"] = _INTERRUPTED
    still = (JobRow.id.in_(ids), JobRow.state.in_(ownership.OWNED), JobRow.owner.is_not_distinct_from(owner))
    changed = update(JobRow).where(*still).values(**values).returning(JobRow.id)
    given = list(session.execute(changed.execution_options(synchronize_session=False)).scalars())
    put_down(session, given)
    return given
