"""Creating, cancelling and resuming jobs: what is checked before a job may run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib.metadata import version
from math import prod
from typing import cast

from sqlalchemy import Table, case, delete, func, insert, select, update
from sqlalchemy.orm import Session

from kernels import registry
from kernels.chains.memory import is_worth_trying
from kernels.numerics import Numerics
from kernels.target import Target
from kernels.workload import base as workloads
from kernels.workload.base import AnyChain, Workload
from server.db.database import Database
from server.db.documents import checked
from server.db.stored import target_of, workload_of
from server.db.tables import (
    STRATEGY_LENGTH,
    DeletedJobRow,
    JobRow,
    LabelRow,
    ModelRow,
    TargetRow,
    TaskRow,
    TrialRow,
    WorkloadRow,
    now,
)
from server.engine import Engine
from server.http.problems import Problem, invalid
from server.jobs import listing, schemas
from server.jobs.listing import Wanted
from server.jobs.schemas import ENDED, JobChange, JobRequest
from server.jobs.store import end
from server.jobs.views import get_row
from server.models.service import Models
from server.records import repository
from server.targets.service import Targets
from tuner.search import strategies
from tuner.spec import Budget, JobSpec, TaskSpec
from tuner.states import TASK_TRIALS, JobState, TaskState
from worker.children.nursery import Flag
from worker.demand import Demand
from worker.fleet.matching import fits
from worker.fleet.states import Health

VERSION = version("tilefleet")
_AT_ONCE = 10_000
"""Jobs that one statement names: databases take so many values, and not any number."""
_MOST_TRIALS = 2**31 - 1
Weighted = list[tuple[Workload, int]]


class Jobs:
    """Jobs as rows; running them is the manager's."""

    def __init__(self, db: Database, models: Models, targets: Targets, engine: Engine) -> None:
        self._db, self._models, self._targets, self._engine = db, models, targets, engine

    def create(self, request: JobRequest, cancelled: Flag | None = None) -> tuple[int, Demand]:
        """Check a request and store its job and tasks, queued, for anybody; its number and what it wants.

        Raises problems that name what is wrong. Reading a model with other shapes ends early once
        ``cancelled`` is set.
        """
        target = self._targets.get(request.target, "body", "target")
        clock = self._clock(Demand(target, request.threads, frozenset(request.tags), "wall"))
        if len(request.strategy) > STRATEGY_LENGTH:
            way_out = "give it a shorter one by an entry point tilefleet.strategies"
            detail = f"a strategy's name has at most {STRATEGY_LENGTH} characters: {way_out}"
            raise invalid(detail, "body", "strategy")
        try:
            strategies.find(request.strategy)
        except ValueError as error:
            raise invalid(str(error), "body", "strategy") from None
        model_hash, found = self._subject(request, cancelled)
        tunable = _tunable(found, target)
        budget = request.budget or Budget(trials=TASK_TRIALS * len(tunable))
        with self._db.write() as session:
            repository.add_targets(session, [target])
            repository.add_workloads(session, (workload for workload, _ in tunable))
            row = JobRow(
                model_hash=model_hash,
                workload_key=None if model_hash else tunable[0][0].key,
                target_key=target.key,
                threads=request.threads,
                clock=clock,
                strategy=request.strategy,
                seed=request.seed,
                numerics=request.numerics.value,
                priority=request.priority,
                tags=sorted(request.tags),
                budget_trials=budget.trials,
                budget_seconds=budget.seconds,
                shapes=request.shapes,
                deadline=request.deadline,
                name=request.name,
                submitter=request.submitter,
                version=VERSION,
                state=JobState.QUEUED.value,
            )
            if self._db.sqlite:
                row.id = _next_id(session)
            session.add(row)
            session.flush()
            listing.set_labels(session, row.id, request.labels)
            # In one statement, without asking for anything back: ids keep the model's order.
            tasks = [
                {"job_id": row.id, "workload_key": each.key, "weight": weight} for each, weight in tunable
            ]
            session.execute(insert(cast(Table, TaskRow.__table__)), tasks)
            return row.id, demand_of(session, row)

    def begin_cancel(self, job_id: int) -> JobState:
        """Mark a job ``cancelling``, wherever it runs, or end one that waits; 409 when it has ended."""
        with self._db.write() as session:
            row = get_row(session, job_id, lock=True)
            if row.state in ENDED:
                raise Problem(409, f"job {job_id} is {row.state} and cannot be cancelled")
            if row.state == JobState.QUEUED:
                end(session, row, JobState.CANCELLED, "")
            else:
                row.state = JobState.CANCELLING.value
            return JobState(row.state)

    def resume(self, job_id: int, more: schemas.Budget | None = None) -> Demand:
        """Queue a job that ended once more; 409 in any other state.

        With ``more`` its budget is what it has used and that.
        """
        with self._db.write() as session:
            row = get_row(session, job_id, lock=True)
            if row.state not in ENDED:
                raise Problem(409, f"job {job_id} is {row.state} and cannot be resumed")
            demand = demand_of(session, row)
            clock = self._clock(demand)
            if clock != row.clock:
                detail = f"job {job_id} was timed by {row.clock}, the board has {clock} now: submit it anew"
                raise Problem(409, detail)
            if more is not None:
                used = session.scalar(select(func.count()).where(TrialRow.job_id == job_id)) or 0
                row.budget_trials = more.trials and min(used + more.trials, _MOST_TRIALS)
                row.budget_seconds = more.seconds and row.elapsed_s + more.seconds
            _queue(session, [job_id])
            return demand

    def resume_all(self, wanted: Wanted) -> list[int]:
        """Queue all jobs that are ``wanted``, which must have ended, once more; their numbers."""
        with self._db.write() as session:
            ids = list(
                session.scalars(wanted.of(select(JobRow.id)).order_by(JobRow.id).with_for_update(of=JobRow))
            )
            for start in range(0, len(ids), _AT_ONCE):
                _queue(session, ids[start : start + _AT_ONCE])
        return ids

    def change(self, job_id: int, asked: JobChange) -> None:
        """Give a job another name or other labels."""
        with self._db.write() as session:
            row = get_row(session, job_id, lock=True)
            if asked.name is not None:
                row.name = asked.name
            if asked.labels is not None:
                listing.set_labels(session, job_id, asked.labels)

    def delete(self, job_id: int) -> None:
        """Delete a job that ended, with its tasks and labels; what it measured stays. 409 before its end."""
        with self._db.write() as session:
            row = get_row(session, job_id, lock=True)
            if row.state not in ENDED:
                raise Problem(409, f"job {job_id} is {row.state} and cannot be deleted: cancel it first")
            for table in (TrialRow, TaskRow, LabelRow):
                session.execute(delete(table).where(table.job_id == job_id))
            session.delete(row)
            session.add(DeletedJobRow(id=job_id))

    def why_no_model(self, row: JobRow) -> str:
        """Why this process cannot run a job for want of its model; empty when it can."""
        if row.model_hash and not self._models.path(row.model_hash).exists():
            return f"its model is not in {self._models.folder}"
        return ""

    def spec(self, session: Session, row: JobRow) -> JobSpec:
        """What the runner needs to know of the job."""
        query = (
            select(TaskRow, WorkloadRow)
            .join(WorkloadRow, WorkloadRow.key == TaskRow.workload_key)
            .where(TaskRow.job_id == row.id)
            .order_by(TaskRow.id)
        )
        found: list[tuple[TaskRow, WorkloadRow]] = [(task, stored) for task, stored in session.execute(query)]
        model = session.get(ModelRow, row.model_hash) if row.model_hash else None
        return JobSpec(
            id=row.id,
            tasks=tuple(TaskSpec(task.id, workload_of(stored), task.weight) for task, stored in found),
            demand=demand_of(session, row),
            budget=Budget(row.budget_trials, row.budget_seconds),
            strategy=row.strategy,
            seed=row.seed,
            numerics=Numerics(row.numerics),
            elapsed_s=row.elapsed_s,
            deadline=row.deadline.timestamp() if row.deadline else None,
            any_layout=model is not None,
            model=str(self._models.path(model.hash)) if model else None,
            shapes=row.shapes or (model.shapes if model else None),
        )

    def _subject(self, request: JobRequest, cancelled: Flag | None) -> tuple[str | None, Weighted]:
        """The model's hash, if any, and the distinct workloads with how often they occur."""
        if request.workload is not None:
            # Brings onnx along, which a coordinator does without as long as it can.
            from compiler.ir.checks import check_size

            try:
                workload = workloads.from_json(request.workload)
                for what, shape in workloads.array_shapes(workload).items():
                    check_size(4 * prod(shape), f"{what} of the workload", shape)
            except ValueError as error:
                raise invalid(str(error), "body", "workload") from None
            return None, [(workload, 1)]
        with self._db.read() as session:
            row = self._models.get(session, request.model or "", "body", "model")
        extraction = self._models.extraction(row, request.shapes, cancelled)
        if not extraction.operators:
            reasons = "; ".join(f"{each.node}: {each.reason}" for each in extraction.not_tunable[:5])
            raise invalid(
                f"model {row.name} has nothing to tune ({reasons or 'no products in it'})", "body", "model"
            )
        # Weight 0: the parts of a chain are tasks of their own, so what a model takes is a sum without it.
        chains = [(each.workload, 0) for each in extraction.chains]
        return row.hash, [*((each.workload, each.count) for each in extraction.operators), *chains]

    def _clock(self, demand: Demand) -> str:
        """The clock of a job: the demand's if a board that could run it has that, else that of those boards.

        422 when no board could run it, or when those that could have several clocks.
        """
        target, threads, tags = demand.target, demand.threads, demand.tags
        boards = [
            board
            for board in self._engine.boards()
            if board.target.key == target.key and board.health is not Health.RETIRED
        ]
        if not boards:
            others = {
                board.target.name for board in self._engine.boards() if board.health is not Health.RETIRED
            }
            with_boards = ", ".join(sorted(others)) or "none"
            raise invalid(
                f"target {target.name!r} has no board here; targets with boards: {with_boards}",
                "body",
                "target",
            )
        most = max(board.threads for board in boards)
        if threads > most:
            raise invalid(
                f"no board of {target.name!r} has {threads} threads, at most {most}; "
                "TILEFLEET_BOARD_THREADS sets how many the native board has",
                "body",
                "threads",
            )
        fitting = [board for board in boards if fits(replace(demand, clock=""), board)]
        if not fitting:
            raise invalid(
                f"no board of {target.name!r} with {threads} threads has the tags {_listed(tags)}; "
                f"there are: {'; '.join(f'{board.id} ({_listed(board.tags)})' for board in boards)}",
                "body",
                "tags",
            )
        clocks = sorted({board.clock for board in fitting})
        if demand.clock in clocks:
            return demand.clock
        if len(clocks) > 1:
            raise invalid(
                f"boards of {target.name!r} have several clocks, whose times do not compare "
                f"({', '.join(f'{board.id}: {board.clock}' for board in fitting)}): "
                "choose by tags, which a fleet file gives to boards",
                "body",
                "tags",
            )
        return clocks[0]


def _queue(session: Session, ids: Sequence[int]) -> None:
    """Put jobs into the queue, for any process to run."""
    late = case((JobRow.deadline > now(), JobRow.deadline))  # whoever resumes one wants it to go on
    again = {"state": JobState.QUEUED.value, "message": "", "finished": None, "deadline": late}
    again |= {"owner": None, "beat": None, "version": VERSION}
    session.execute(update(JobRow).where(JobRow.id.in_(ids)).values(**again))
    session.execute(update(TaskRow).where(TaskRow.job_id.in_(ids)).values(state=TaskState.WAITING.value))


def _next_id(session: Session) -> int:
    """An id that no job has or had: SQLite would give the highest again once it is free."""
    ids = (session.execute(select(func.max(table.id))).scalar() for table in (JobRow, DeletedJobRow))
    return 1 + max(each or 0 for each in ids)


def demand_of(session: Session, row: JobRow) -> Demand:
    """Which boards will do for a job, and how urgent it is."""
    target = target_of(session.get_one(TargetRow, row.target_key))
    tags = checked(row.tags, list[str], f"the tags of job {row.id}")
    return Demand(target, row.threads, frozenset(tags), row.clock, row.id, row.priority)


def _listed(tags: Iterable[str]) -> str:
    return ", ".join(sorted(tags)) or "no tags"


def _tunable(found: Iterable[tuple[Workload, int]], target: Target) -> Weighted:
    """What some kernel can compute on ``target``; a 422 problem when that is nothing.

    Of a model's chains those for which what is between does not stay in the caches anyway.
    """
    tunable, reasons = [], []
    for workload, count in found:
        if not count and isinstance(workload, AnyChain) and not is_worth_trying(workload, target):
            continue
        reason = registry.why_not_tunable(workload, target)
        if reason is None:
            tunable.append((workload, count))
        else:
            reasons.append(f"{workload}: {reason}")
    if not tunable:
        raise invalid(f"nothing can be tuned for {target.name}: {'; '.join(reasons[:5])}", "body")
    return tunable
