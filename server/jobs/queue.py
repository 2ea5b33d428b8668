"""The queue of jobs: rows that are ``queued`` and nobody's, which any coordinator may claim."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from server import ownership
from server.db.database import Database
from server.db.tables import IS_QUEUED, BoardRow, JobRow, now
from server.engine import Engine
from server.jobs import slots
from server.jobs.schemas import Waiting
from server.jobs.service import Jobs, demand_of
from server.jobs.store import end
from tuner.spec import JobSpec
from tuner.states import JobState
from worker.demand import Demand

_REMEMBERED = 1000
"""Kinds of demand whose boards are not looked up again."""
log = logging.getLogger(__name__)


class Queue:
    """What waits, and why. Jobs wait in rows alone: ten thousand of them cost no process anything.

    Jobs whose demands are alike in all but priority are of one kind, which the column ``wants`` names. Those
    whose boards are the same now wait in one queue, by priority and number. Methods may be called in any
    thread.
    """

    def __init__(self, db: Database, jobs: Jobs, engine: Engine) -> None:
        self._db, self._jobs, self._engine = db, jobs, engine
        self._demands: dict[str, Demand] = {}
        self._missing: set[str] = set()
        """Models that jobs need and this coordinator has not, by the last look."""

    def claim(self, running: Mapping[int, Demand]) -> tuple[list[JobSpec], dict[int, str]]:
        """Make jobs that may run this process's own, beside those that it has ``running``; also those that
        failed, since nobody can read them, with the reason."""
        boards = self._engine.boards()
        with self._db.read() as session:
            kinds, broken = self._kinds(session)
            ids = [*broken, *self._late(session)]
            for members in _grouped(kinds, lambda demand: slots.serving(demand, boards)).values():
                room = slots.free(kinds[members[0]], boards, running)
                ids += self._first(session, members, room, running)
        claimed: list[JobSpec] = []
        failed: dict[int, str] = {}
        if ids := [job for job in dict.fromkeys(ids) if job not in running]:
            with self._db.write() as session:
                for job in ids:
                    self._take(session, job, claimed, failed)
        return claimed, failed

    def why(
        self, session: Session, rows: Sequence[JobRow], running: Mapping[int, Demand]
    ) -> dict[int, Waiting]:
        """The place of each of ``rows`` that is queued, and why it waits."""
        queued = [row for row in rows if row.state == JobState.QUEUED]
        if not queued:
            return {}
        boards = self._engine.boards()
        kinds, _ = self._kinds(session)
        seen = {row.id: row.last_seen for row in session.execute(select(BoardRow.id, BoardRow.last_seen))}
        found: dict[int, Waiting] = {}
        for members in _grouped(kinds, lambda demand: slots.rivals(demand, boards)).values():
            asked = {row.id: row for row in queued if row.wants in members}
            if not asked:
                continue
            for job, position in _positions(session, members, asked).items():
                reason = self._engine.away or slots.why_not(kinds[asked[job].wants], boards, running, seen)
                found[job] = Waiting(position=position, reason=reason or self._not_yet(asked[job]))
        return found

    def _not_yet(self, row: JobRow) -> str:
        """Why a job for which there is room does not run."""
        return self._jobs.why_no_model(row) or "it starts now"

    def _kinds(self, session: Session) -> tuple[dict[str, Demand], list[int]]:
        """The kinds of job that wait, and of those that cannot be read a job each."""
        query = select(JobRow.wants, func.min(JobRow.id)).where(IS_QUEUED).group_by(JobRow.wants)
        if len(self._demands) > _REMEMBERED:
            self._demands = {}
        kinds: dict[str, Demand] = {}
        broken = []
        for kind, job in session.execute(query):
            if kind not in self._demands:
                row = session.get(JobRow, job)
                if row is None:
                    continue
                try:
                    self._demands[kind] = demand_of(session, row)
                except DBAPIError:
                    raise
                except Exception:  # it is named when it is claimed
                    broken.append(job)
                    continue
            kinds[kind] = self._demands[kind]
        return kinds, broken

    def _late(self, session: Session) -> list[int]:
        """Jobs that end now with what they have: their deadline waits for no board."""
        late = select(JobRow.id).where(IS_QUEUED, JobRow.deadline <= now())
        return list(session.scalars(late.order_by(JobRow.deadline).limit(slots.SLOTS)))

    def _first(
        self, session: Session, kinds: Sequence[str], room: int, running: Collection[int]
    ) -> list[int]:
        """The first of a queue, ``room`` at most."""
        if not room:
            return []
        found: list[tuple[int, int]] = []
        for kind in kinds:  # one by one, as the index has them in order
            query = select(JobRow.id, JobRow.priority, JobRow.model_hash).where(
                IS_QUEUED, JobRow.wants == kind
            )
            if self._missing:
                query = query.where(func.coalesce(JobRow.model_hash, "").not_in(self._missing))
            # A job that was resumed at once may still be on its way out of its former run.
            query = query.where(JobRow.id.not_in(running)).order_by(JobRow.priority.desc(), JobRow.id)
            found += [(-row.priority, row.id) for row in session.execute(query.limit(room))]
        return [job for _, job in sorted(found)[:room]]

    def _take(self, session: Session, job: int, claimed: list[JobSpec], failed: dict[int, str]) -> None:
        query = select(JobRow).where(IS_QUEUED, JobRow.id == job).with_for_update(skip_locked=True)
        row = session.execute(query).scalar_one_or_none()
        if row is None:  # another process was faster
            return
        if self._jobs.why_no_model(row):
            self._missing.add(row.model_hash or "")
            return
        try:
            claimed.append(self._jobs.spec(session, row))
        except DBAPIError:
            raise
        except Exception as error:  # one that cannot be read must not keep the others from running
            log.exception("job %d cannot be run", job)
            failed[job] = f"{type(error).__name__}: {error}"
            end(session, row, JobState.FAILED, failed[job])
        else:
            row.state, row.owner, row.beat = JobState.RUNNING.value, ownership.me(), now()


def _grouped(kinds: Mapping[str, Demand], by: Callable[[Demand], Hashable]) -> dict[Hashable, list[str]]:
    groups: dict[Hashable, list[str]] = {}
    for kind, demand in kinds.items():
        groups.setdefault(by(demand), []).append(kind)
    return groups


def _positions(session: Session, kinds: Sequence[str], jobs: Collection[int]) -> dict[int, int]:
    """The place of each of ``jobs``, from 1, among all that are queued of these kinds."""
    number = func.row_number().over(order_by=(JobRow.priority.desc(), JobRow.id)).label("number")
    places = select(JobRow.id, number).where(IS_QUEUED, JobRow.wants.in_(kinds)).subquery()
    found = session.execute(select(places.c.id, places.c.number).where(places.c.id.in_(jobs)))
    return {row.id: row.number for row in found}
