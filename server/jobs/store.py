"""The runner's store (``tuner/job/store.py``) over SQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import ColumnElement, Select, func, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.orm import Session

from kernels.numerics import Numerics
from kernels.target import Target
from kernels.workload.base import Workload
from server import ownership
from server.boards.book import SqlBook
from server.boards.leases import recordable
from server.db.database import Database
from server.db.documents import fitting
from server.db.insert import insert
from server.db.tables import (
    BoardEventRow,
    JobRow,
    LeaseRow,
    PeakRow,
    RecordRow,
    RelayoutRow,
    TaskRow,
    TrialRow,
    now,
)
from server.metrics import Metrics
from server.records import leaders, repository, told
from server.records.bests import batches, choose_anew, choose_best, lock_tasks
from tuner.backend.check import Delivery
from tuner.job.store import Ranking
from tuner.log.record import Record
from tuner.spec import JobSpec, Trial
from tuner.states import JobState, StoreAway, TakenOver, TaskState
from worker.fleet.book import LIED, TAKES_BACK
from worker.measure import plausible

P = ParamSpec("P")
T = TypeVar("T")


def _asked(method: Callable[Concatenate[SqlStore, P], T]) -> Callable[Concatenate[SqlStore, P], T]:
    """A method that raises StoreAway when the database is away, and says so in ``away`` while it is."""

    @wraps(method)
    def ask(self: SqlStore, /, *arguments: P.args, **named: P.kwargs) -> T:
        try:
            result = method(self, *arguments, **named)
        except (DBAPIError, PoolTimeout) as error:
            self.away = self._db.why_away(error)
            if not self.away:
                raise
            raise StoreAway(self.away) from error
        self.away = ""
        return result

    return ask


class SqlStore:
    """The truth about jobs. What is shown of a task is kept up to date with each save, not counted anew."""

    def __init__(self, db: Database, metrics: Metrics, clock: Callable[[], float] = time.time) -> None:
        self._db, self._metrics, self._clock = db, metrics, clock
        self.away = ""
        """Why the database took nothing the last time, empty when it did."""
        self._runs: dict[int, tuple[float, float]] = {}
        """Of each running job: its running time in earlier runs, and when this one began."""

    @_asked
    def known(self, workload: Workload, target: Target, clock: str, threads: int) -> list[Record]:
        """See ``Store.known``."""
        with self._db.read() as session:
            return repository.known(session, workload.key, target.key, clock, threads)

    @_asked
    def trials(self, job_id: int) -> list[Trial]:
        """See ``Store.trials``."""
        return self._trials(job_id)

    @_asked
    def changed(self, job_id: int, known: Mapping[tuple[int, str], Ranking]) -> list[Trial]:
        """See ``Store.changed``."""
        columns = (RecordRow.error, RecordRow.disturbed, RecordRow.board, RecordRow.ranking_s)
        query = (
            select(RecordRow.id, TrialRow.task_id, RecordRow.config_key, *columns)
            .join(TrialRow, TrialRow.record_id == RecordRow.id)
            .where(TrialRow.job_id == job_id)
        )
        with self._db.read() as session:
            found = session.execute(query).all()
        other = [
            id_ for id_, task, config, *now_ in found if known.get((task, config)) not in (None, (*now_,))
        ]
        return [trial for some in batches(other) for trial in self._trials(job_id, RecordRow.id.in_(some))]

    def _trials(self, job_id: int, *which: ColumnElement[bool]) -> list[Trial]:
        query = select(TrialRow).where(TrialRow.job_id == job_id).order_by(TrialRow.id)
        with self._db.read() as session:
            records = repository.of_job(session, job_id, *which)
            rows = session.execute(query).scalars().all() if records else []
        # A record that is damaged by now is measured again.
        sound = [row for row in rows if row.record_id in records]
        return [Trial(row.task_id, row.number, records[row.record_id], row.reused) for row in sound]

    @_asked
    def taken_back(self, since: float) -> int:
        """See ``Store.taken_back``."""
        at = datetime.fromtimestamp(since, UTC)
        query = select(func.count()).where(BoardEventRow.at >= at, BoardEventRow.kind.in_(TAKES_BACK))
        with self._db.read() as session:
            return session.execute(query).scalar_one()

    @_asked
    def save(self, job_id: int, trials: Sequence[Trial], elapsed_s: float) -> list[Trial]:
        """See ``Store.save``; nor is kept what another clock than the job's has timed.

        Raises TakenOver, as all that changes a job, when another process has it.
        """
        new: list[Trial] = []
        self._catch((trial.record, trial.lease, trial.at) for trial in trials if not trial.reused)
        with self._db.write() as session:
            held = recordable(session, ((trial.lease, trial.at) for trial in trials), self._clock())
            clock = _own(session, job_id).clock
            kept = [
                trial for trial in trials if (trial.lease, trial.at) in held and trial.record.clock == clock
            ]
            repository.add(session, [trial.record for trial in kept if not trial.reused])
            found = [(trial, repository.find(session, trial.record.identity)) for trial in kept]
            placed = [
                (trial, row)
                for trial, row in found
                if row is not None and (not trial.reused or _still(row, trial.record))
            ]
            kept = [trial for trial, _ in placed]
            # Of other jobs, too: a quiet time may have taken the place of their disturbed one.
            measured = {row.id for trial, row in placed if not trial.reused}
            tasks = lock_tasks(session, measured, (trial.task_id for trial in kept))
            stale = set(lock_tasks(session, measured))
            places = leaders.of_tasks(session, {trial.task_id for trial in kept} - stale)
            newest: dict[int, list[int]] = {}
            for trial, record in placed:
                row = {
                    "job_id": job_id,
                    "task_id": trial.task_id,
                    "record_id": record.id,
                    "number": trial.number,
                    "reused": trial.reused,
                    "recommended": trial.recommended,
                }
                before = places.get(trial.task_id, [])
                place = leaders.Place(0, trial.number, record.ranking_s, record.disturbed)
                row["leads"] = leaders.ahead(place, before)
                added = insert(session, TrialRow).values(row).on_conflict_do_nothing().returning(TrialRow.id)
                if session.execute(added).first() is not None:
                    _count(session.get_one(TaskRow, trial.task_id), trial, record.id)
                    new.append(trial)
                    newest.setdefault(trial.task_id, []).append(record.id)
                    if row["leads"]:
                        before.append(place)
            choose_anew(session, sorted(stale))
            for task_id in set(tasks) - stale:
                choose_best(session, task_id, newest.get(task_id, []))
            session.execute(update(JobRow).where(JobRow.id == job_id).values(elapsed_s=elapsed_s))
        for trial in new:
            outcome = "reused" if trial.reused else trial.record.error or "ok"
            self._metrics.trials.labels(str(outcome)).inc()
            if trial.record.error is not None and trial.record.error.infrastructure and not trial.reused:
                self._metrics.infrastructure_failures.inc()
        return kept

    def _catch(self, measured: Iterable[tuple[Record, int, float]]) -> None:
        """Park boards that are faster than they said they can be. It comes before anything is stored, so that
        whatever ends this process leaves no such time behind."""
        said = list(measured)
        with self._db.read() as session:
            held = recordable(session, ((lease, at) for _, lease, at in said), self._clock())
            counts = (record for record, lease, at in said if (lease, at) in held)
            lies = dict(filter(None, (_beyond_its_peak(session, record) for record in counts)))
        book = SqlBook(self._db)
        for board, why in lies.items():
            book.change(board, lambda standing, why=why: standing.lied(why), LIED)  # type: ignore[misc]
            book.revoke(board, why)

    @_asked
    def remeasured(self, record: Record, before: Record, lease: int = 0, at: float = 0.0) -> bool:
        """See ``Store.remeasured``."""
        self._catch([(record, lease, at)])
        with self._db.write() as session:
            if not recordable(session, [(lease, at)], self._clock()):
                return False
            row = repository.find(session, record.identity, lock=True)
            if row is None or not _still(row, before):
                return False
            for name, value in repository.columns(record).items():
                setattr(row, name, value)
            session.flush()
            tasks = lock_tasks(session, {row.id})
            for task_id in tasks:
                if record.error is not None:
                    _count_failure(session.get_one(TaskRow, task_id), record)
            choose_anew(session, tasks)
        return True

    @_asked
    def foresee(self, spec: JobSpec) -> None:
        """Keep what is predicted of a job's layers and the rest of its model, and the seconds it has used."""
        with self._db.write() as session:
            row = _own(session, spec.id)
            row.others_s, row.elapsed_s = spec.others_s, spec.elapsed_s
            for task in spec.tasks:
                session.get_one(TaskRow, task.id).predicted_s = task.predicted_s

    @_asked
    def log(self, job_id: int) -> list[Record]:
        """See ``Store.log``."""
        with self._db.read() as session:
            if delivers_untuned(session.get_one(JobRow, job_id)):
                return []
        return list(repository.log(self._db, "best", 1, job=job_id, numerics=Numerics.RELAXED))

    @_asked
    def relayouts(self, target: Target, threads: int, clock: str) -> list[str]:
        """See ``Store.relayouts``."""
        with self._db.read() as session:
            found = told.relayouts(
                session,
                RelayoutRow.target_key == target.key,
                RelayoutRow.threads == threads,
                RelayoutRow.clock == clock,
            )
        return [each.line() for each in found]

    @_asked
    def delivered(self, job_id: int, delivery: Delivery, lease: int = 0) -> bool:
        """See ``Store.delivered``."""
        with self._db.write() as session:
            held = recordable(session, [(lease, 0.0)], self._clock())
            _own(session, job_id)
            if not held:
                return False
            by = session.get(LeaseRow, lease)
            said = {"delivery": delivery.to_json(), "delivered_by": by.board if by else ""}
            session.execute(update(JobRow).where(JobRow.id == job_id).values(said))
        return True

    @_asked
    def task_state(self, task_id: int, state: TaskState) -> None:
        """See ``Store.task_state``."""
        with self._db.write() as session:
            session.execute(update(TaskRow).where(TaskRow.id == task_id).values(state=state.value))

    @_asked
    def job_state(self, job_id: int, state: JobState, message: str) -> None:
        """See ``Store.job_state``; a job being cancelled goes back neither to running nor into the queue."""
        with self._db.write() as session:
            row = _own(session, job_id)
            if state is JobState.RUNNING:
                self._runs[job_id] = (row.elapsed_s, time.monotonic())
                row.started, row.finished, row.delivery = now(), None, None
                if row.state == JobState.CANCELLING:
                    return
            else:
                if row.state == JobState.CANCELLING and state is JobState.QUEUED:
                    state = JobState.CANCELLED
                row.finished, row.owner = now() if state.final else None, None
                put_down(session, [job_id])
                if job_id in self._runs:
                    before, began = self._runs.pop(job_id)
                    row.elapsed_s = before + time.monotonic() - began
            row.state, row.message = state.value, message


def delivers_untuned(row: JobRow) -> bool:
    """Whether the job's model is the untuned one, so that a build by its log gets no record."""
    return isinstance(row.delivery, dict) and row.delivery.get("untuned") is True


def _still(row: RecordRow, record: Record) -> bool:
    """Whether a record says what it did when it was read: its board may have been caught meanwhile, and
    another one may have measured it since."""
    cost_s = row.document.get("cost_s") if isinstance(row.document, dict) else None  # it may hold anything
    was = (record.error and record.error.value, record.disturbed, record.board, record.cost_s)
    return (row.error, row.disturbed, row.board, cost_s) == was


def _beyond_its_peak(session: Session, record: Record) -> tuple[str, str] | None:
    """The board of a record that is faster than what that same board said it can be, and why."""
    key = (record.target.key, record.threads, record.clock)
    row = session.get(PeakRow, key)
    peak = told.value(session, PeakRow, key) if row is not None and row.board == record.board else None
    if not record.board or record.gflops is None or peak is None:
        return None
    why = plausible.beyond_peak(record.workload, record.config.kernel, record.gflops, peak)
    return (record.board, f"board {record.board}: {why}") if why else None


def put_down(session: Session, jobs: Sequence[int] | Select[int]) -> None:
    """Say of the tasks of jobs that nobody runs that none is worked on; those in the middle wait."""
    active = TaskRow.job_id.in_(jobs) & (TaskRow.state == TaskState.ACTIVE.value)
    session.execute(update(TaskRow).where(active).values(state=TaskState.WAITING.value))


def end(session: Session, row: JobRow, state: JobState, message: str) -> None:
    """End a job that no process runs."""
    row.state, row.message, row.owner, row.finished = state.value, message, None, now()
    put_down(session, [row.id])


def _own(session: Session, job_id: int) -> JobRow:
    """The row of a job that this process runs, locked: nobody takes it over until the transaction ends."""
    row = session.get_one(JobRow, job_id, with_for_update={"key_share": True})
    if row.owner != ownership.me():
        raise TakenOver(f"job {job_id} is run by {row.owner or 'nobody'}")
    return row


def _count(task: TaskRow, trial: Trial, record_id: int) -> None:
    task.trials += 1
    task.reused += trial.reused
    if trial.number == 0:
        task.recommended_id = record_id
    if trial.record.error is not None:
        _count_failure(task, trial.record)


def _count_failure(task: TaskRow, record: Record) -> None:
    kind = str(record.error)
    task.failed += 1
    errors: dict[str, int] = fitting(task.errors, dict[str, int], {}, f"the errors of task {task.id}")
    messages: dict[str, str] = fitting(task.messages, dict[str, str], {}, f"the messages of task {task.id}")
    task.errors = {**errors, kind: errors.get(kind, 0) + 1}
    task.messages = {kind: record.message, **messages}
