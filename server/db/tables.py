"""The tables. ``migrations/`` makes them; a test holds the two against each other."""

from __future__ import annotations

import hashlib
import json
import time
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    ForeignKey,
    Index,
    MetaData,
    UniqueConstraint,
    false,
    text,
    true,
)
from sqlalchemy.engine.interfaces import ExecutionContext
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from kernels.numerics import Numerics
from kernels.workload.base import KINDS
from server import lengths
from server.db.columns import Flag, Key, Moment, Real, RowId, Threads, Time, Utc, Whole, Word
from tuner.states import JobState, TaskState
from worker.fleet.book import Purpose

STRATEGY_LENGTH = 32
"""Characters of a strategy's name at most."""


def now() -> datetime:
    """The present, aware, UTC."""
    return datetime.now(UTC)


def this_minute() -> int:
    """The present in minutes since the epoch."""
    return int(time.time() // 60)


IS_QUEUED = text("jobs.state = 'queued'")
"""Written out: a partial index serves only what says its condition word by word."""
_WAITS = text("state = 'queued'")
_IS_LATE = text("state = 'queued' AND deadline IS NOT NULL")


class Base(DeclarativeBase):
    """Root of the tables; constraints have names so that migrations can speak of them."""

    type_annotation_map: ClassVar = {int: Whole(0), bool: Flag()}
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class ModelRow(Base):
    """An uploaded model; its file is named by the same hash."""

    __tablename__ = "models"
    hash: Mapped[str] = mapped_column(Word(64), primary_key=True)
    name: Mapped[str] = mapped_column(Word(200))
    size: Mapped[int] = mapped_column(Whole(0, big=True))
    shapes: Mapped[dict[str, list[int]] | list[dict[str, list[int]]] | None] = mapped_column(
        JSON(none_as_null=True)
    )
    extraction: Mapped[dict[str, Any]] = mapped_column(JSON)
    created: Mapped[datetime] = mapped_column(Utc(), default=now)


class WorkloadRow(Base):
    """One workload in its canonical form."""

    __tablename__ = "workloads"
    key: Mapped[str] = mapped_column(Key, primary_key=True)
    kind: Mapped[str] = mapped_column(Word(32, "gemm", tuple(KINDS)))
    document: Mapped[dict[str, Any]] = mapped_column(JSON)
    flops: Mapped[int] = mapped_column(Whole(0, big=True))


class TargetRow(Base):
    """One kind of machine. Names are labels: two hosts may both be called ``host``."""

    __tablename__ = "targets"
    key: Mapped[str] = mapped_column(Key, primary_key=True)
    name: Mapped[str] = mapped_column(Word(200))
    document: Mapped[dict[str, Any]] = mapped_column(JSON)


class PeakRow(Base):
    """The measured peak of a target with so many threads, by one clock."""

    __tablename__ = "peaks"
    target_key: Mapped[str] = mapped_column(ForeignKey("targets.key"), primary_key=True)
    threads: Mapped[int] = mapped_column(Threads, primary_key=True, autoincrement=False)
    clock: Mapped[str] = mapped_column(Word(100), primary_key=True)
    gflops: Mapped[float] = mapped_column(Real(0.0))
    board: Mapped[str] = mapped_column(Word(100), default="", server_default="")
    """Who said so; empty where that was not kept."""


class BandwidthRow(Base):
    """What so many cores of a target read from memory, by one clock."""

    __tablename__ = "bandwidths"
    target_key: Mapped[str] = mapped_column(ForeignKey("targets.key"), primary_key=True)
    threads: Mapped[int] = mapped_column(Threads, primary_key=True, autoincrement=False)
    clock: Mapped[str] = mapped_column(Word(100), primary_key=True)
    gbs: Mapped[float] = mapped_column(Real(0.0))
    """Billions of bytes a second."""
    board: Mapped[str] = mapped_column(Word(100), default="", server_default="")
    """As of a peak."""


class RelayoutRow(Base):
    """Measured conversions between layouts on a target with so many threads, by one clock."""

    __tablename__ = "relayouts"
    target_key: Mapped[str] = mapped_column(ForeignKey("targets.key"), primary_key=True)
    threads: Mapped[int] = mapped_column(Threads, primary_key=True, autoincrement=False)
    clock: Mapped[str] = mapped_column(Word(100), primary_key=True)
    document: Mapped[dict[str, list[list[float]]]] = mapped_column(JSON)
    """By pair of layouts, ``nchw>nhwc``: [elements, seconds] each."""
    board: Mapped[str] = mapped_column(Word(100), default="", server_default="")
    """As of a peak."""


class BaselineRow(Base):
    """What a library takes for a workload on the machine of a target, by one clock; the last measurement."""

    __tablename__ = "baselines"
    workload_key: Mapped[str] = mapped_column(ForeignKey("workloads.key"), primary_key=True)
    target_key: Mapped[str] = mapped_column(ForeignKey("targets.key"), primary_key=True)
    clock: Mapped[str] = mapped_column(Word(100), primary_key=True)
    threads: Mapped[int] = mapped_column(Threads, primary_key=True, autoincrement=False)
    library: Mapped[str] = mapped_column(Word(64), primary_key=True)
    version: Mapped[str] = mapped_column(Word(64))
    seconds: Mapped[float] = mapped_column(Real(0.0))
    measured: Mapped[datetime] = mapped_column(Utc(), default=now)


def wants_of(target_key: str, threads: int, clock: str, tags: list[str]) -> str:
    """The name of what decides which boards will do for a job."""
    text = json.dumps([target_key, threads, clock, sorted(tags)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _wants(context: ExecutionContext) -> str:
    row = context.get_current_parameters()  # type: ignore[attr-defined]  # of one row
    return wants_of(row["target_key"], row["threads"], row["clock"], row["tags"])


class JobRow(Base):
    """A job. ``owner`` is the process that runs it and ``beat`` its last sign of life; one that is queued has
    none."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "state"),
        Index("ix_jobs_late", "deadline", sqlite_where=_IS_LATE, postgresql_where=_IS_LATE),
    )
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    model_hash: Mapped[str | None] = mapped_column(ForeignKey("models.hash"))
    workload_key: Mapped[str | None] = mapped_column(ForeignKey("workloads.key"))
    target_key: Mapped[str] = mapped_column(ForeignKey("targets.key"))
    threads: Mapped[int] = mapped_column(Threads)
    clock: Mapped[str] = mapped_column(Word(100))
    strategy: Mapped[str] = mapped_column(Word(STRATEGY_LENGTH))
    seed: Mapped[int] = mapped_column(Whole(0, big=True))
    numerics: Mapped[str] = mapped_column(Word(16, "relaxed", tuple(Numerics)), server_default="relaxed")
    budget_trials: Mapped[int | None] = mapped_column(Whole())
    budget_seconds: Mapped[float | None] = mapped_column(Real())
    shapes: Mapped[dict[str, list[int]] | list[dict[str, list[int]]] | None] = mapped_column(
        JSON(none_as_null=True)
    )
    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    tags: Mapped[list[str]] = mapped_column(JSON, default=list, server_default="[]")
    wants: Mapped[str] = mapped_column(Key, default=_wants, server_default="")
    """The hash of what decides which boards will do: target, threads, clock and tags."""
    name: Mapped[str] = mapped_column(Word(lengths.NAME), default="", server_default="")
    submitter: Mapped[str] = mapped_column(Word(lengths.NAME), default="", server_default="")
    version: Mapped[str] = mapped_column(Word(64), default="", server_default="")
    """Of Tilefleet, when it was last queued; empty where that was not kept."""
    state: Mapped[str] = mapped_column(Word(16, "failed", tuple(JobState)))
    message: Mapped[str] = mapped_column(Word(), default="")
    owner: Mapped[str | None] = mapped_column(Word(200, None))
    beat: Mapped[datetime | None] = mapped_column(Utc(None))
    created: Mapped[datetime] = mapped_column(Utc(), default=now)
    started: Mapped[datetime | None] = mapped_column(Utc(None))
    finished: Mapped[datetime | None] = mapped_column(Utc(None))
    deadline: Mapped[datetime | None] = mapped_column(Utc(None))
    elapsed_s: Mapped[float] = mapped_column(Real(0.0), default=0.0)
    """Running time over all runs of the job: while it runs, as of the last trial saved."""
    others_s: Mapped[float] = mapped_column(Real(0.0), default=0.0, server_default="0")
    """What one run of the untuned model is predicted to spend outside the tasks' layers."""
    delivery: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What came of building its model at the end (``tuner.backend.check.Delivery``)."""
    delivered_by: Mapped[str] = mapped_column(Word(100), default="", server_default="")
    """The board that said so; empty where that was not kept."""


# Its order is that of the queue: the jobs of each kind by priority, the highest first, and number.
Index(
    "ix_jobs_queue",
    JobRow.wants,
    JobRow.priority.desc(),
    JobRow.id,
    sqlite_where=_WAITS,
    postgresql_where=_WAITS,
)


class LabelRow(Base):
    """A word that somebody put on a job to find it again."""

    __tablename__ = "job_labels"
    __table_args__ = (Index(None, "label"),)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"), primary_key=True, autoincrement=False)
    label: Mapped[str] = mapped_column(Word(lengths.LABEL), primary_key=True)


class DeletedJobRow(Base):
    """A job that was deleted: its id is never given again, which leases and logs may still speak of."""

    __tablename__ = "deleted_jobs"
    id: Mapped[int] = mapped_column(Whole(0, big=True), primary_key=True, autoincrement=False)
    deleted: Mapped[datetime] = mapped_column(Utc(), default=now)


class TaskRow(Base):
    """One distinct workload of a job."""

    __tablename__ = "tasks"
    __table_args__ = (UniqueConstraint("job_id", "workload_key"),)
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    workload_key: Mapped[str] = mapped_column(ForeignKey("workloads.key"))
    weight: Mapped[int]
    state: Mapped[str] = mapped_column(Word(16, "waiting", tuple(TaskState)), default="waiting")
    trials: Mapped[int] = mapped_column(default=0)
    failed: Mapped[int] = mapped_column(default=0)
    reused: Mapped[int] = mapped_column(default=0)
    errors: Mapped[dict[str, int]] = mapped_column(JSON, default=dict)
    messages: Mapped[dict[str, str]] = mapped_column(JSON, default=dict)
    """The first message of each kind of error."""
    best_id: Mapped[int | None] = mapped_column(ForeignKey("records.id"))
    recommended_id: Mapped[int | None] = mapped_column(ForeignKey("records.id"))
    """The record of trial 0, the config that the untuned model has."""
    predicted_s: Mapped[float | None] = mapped_column(Real())
    """The predicted seconds of that config. They compare layers; they forecast no time."""


def _where(some: str, name: str, *columns: str) -> Index:
    """An index of the rows that meet a condition."""
    return Index(name, *columns, sqlite_where=text(some), postgresql_where=text(some))


FACTS = {"clock": "(clock || '')", "kernel": "(kernel || '')", "threads": "(threads + 0)"}
"""Facts that lists of records are filtered by, as the expressions that have an index: no other query, which
says the column alone, shall take that index for a better one."""


class RecordRow(Base):
    """One measurement. ``document`` is the record's JSON without workload and target.

    ``exact`` says whether its config is (``kernels.numerics``), ``layouts`` what it reads and writes, as
    ``kernels.layout.Layouts`` writes itself.
    """

    __tablename__ = "records"
    __table_args__ = (
        UniqueConstraint(
            "workload_key",
            "target_key",
            "clock",
            "config_key",
            "kernel_version",
            "threads",
            name="uq_records_identity",
        ),
        # Serves the best config: its first entry is the answer.
        _where(
            "ranking_s IS NOT NULL",
            "ix_records_best",
            *("workload_key", "target_key", "clock", "threads"),
            *("layouts", "imported", "disturbed", "ranking_s"),
        ),
        Index(None, "target_key", "id"),
        Index(None, "workload_key", "id"),
        # Serve what is taken back of a board that lied.
        Index(None, "board", "id"),
        _where("placed", "ix_records_placed", "target_key", "id"),
        Index(None, "minute"),
        *(Index(f"ix_records_of_{name}", text(fact), "id") for name, fact in FACTS.items()),
        # Serve the sorted lists, of all records and of one kernel's or one target's, and that of failures.
        *(
            _where(f"{by} IS NOT NULL", f"ix_records_{'_'.join((*first, by))}", *first, by, "id")
            for by in ("ranking_s", "rate")
            for first in ((), ("kernel",), ("target_key",))
        ),
        _where("error IS NOT NULL", "ix_records_failed", "id", "error"),
    )
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    workload_key: Mapped[str] = mapped_column(ForeignKey("workloads.key"))
    target_key: Mapped[str] = mapped_column(ForeignKey("targets.key"))
    clock: Mapped[str] = mapped_column(Word(100))
    threads: Mapped[int] = mapped_column(Threads)
    config_key: Mapped[str] = mapped_column(Key)
    kernel: Mapped[str] = mapped_column(Word(64))
    kernel_version: Mapped[int]
    disturbed: Mapped[bool] = mapped_column(server_default=false())
    imported: Mapped[bool] = mapped_column(server_default=false())
    """Whether it came in a log, and was not measured here since."""
    ranking_s: Mapped[float | None] = mapped_column(Time)
    rate: Mapped[float | None] = mapped_column(Real())
    """Operations a second by ``ranking_s``."""
    error: Mapped[str | None] = mapped_column(Word(32, None))
    exact: Mapped[bool] = mapped_column(server_default=false())
    layouts: Mapped[str] = mapped_column(Word(64), server_default="nchw")
    board: Mapped[str] = mapped_column(Word(200), server_default="")
    placed: Mapped[bool] = mapped_column(server_default=false())
    """Whether it has a place among others, which is the cost of one of them."""
    minute: Mapped[int | None] = mapped_column(Whole(), default=this_minute)
    """When it was first stored, in minutes since the epoch; None where that was not kept."""
    document: Mapped[dict[str, Any]] = mapped_column(JSON)


class TrialRow(Base):
    """A record's place in a job."""

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint("task_id", "record_id"),
        Index(None, "task_id", "number"),
        Index(None, "job_id", "id"),
        _where("leads", "ix_trials_leads", "job_id"),
        Index(None, "record_id"),
        _where("recommended", "ix_trials_recommended", "record_id"),
    )
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"))
    task_id: Mapped[int] = mapped_column(ForeignKey("tasks.id"))
    record_id: Mapped[int] = mapped_column(ForeignKey("records.id"))
    number: Mapped[int]
    reused: Mapped[bool]
    leads: Mapped[bool] = mapped_column(default=True, server_default=true())
    """Whether it was the fastest of its task by then (``server.records.leaders``): curves go through such."""
    recommended: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether its config is the untuned model's or the analysis's: a build by the log would ask for it."""


class BoardRow(Base):
    """A board: its facts as its worker tells them, its standing, and what it was used for in all."""

    __tablename__ = "boards"
    id: Mapped[str] = mapped_column(Word(100), primary_key=True)
    target_key: Mapped[str] = mapped_column(ForeignKey("targets.key"))
    clock: Mapped[str] = mapped_column(Word(100))
    threads: Mapped[int] = mapped_column(Threads)
    tags: Mapped[list[str]] = mapped_column(JSON)
    kind: Mapped[str] = mapped_column(Word(100), default="", server_default="")
    """What the fleet file calls its kind, and ``place`` its address in words; empty where it does not say."""
    place: Mapped[str] = mapped_column(Word(300), default="", server_default="")
    health: Mapped[str] = mapped_column(Word(16))
    reason: Mapped[str] = mapped_column(Word())
    failures: Mapped[int] = mapped_column(default=0)
    draining: Mapped[bool] = mapped_column(default=False)
    reference_s: Mapped[float | None] = mapped_column(Time)
    """The reference kernel's best passed time by the present clock and code."""
    reference_artifact: Mapped[str] = mapped_column(Word(100), default="")
    last_check: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    checked: Mapped[datetime | None] = mapped_column(Utc(None))
    trials: Mapped[int] = mapped_column(default=0)
    busy_s: Mapped[float] = mapped_column(Real(0.0), default=0.0)
    timed_s: Mapped[float] = mapped_column(Real(0.0), default=0.0)
    leases: Mapped[int] = mapped_column(default=0)
    """How many ended well."""
    faults: Mapped[int] = mapped_column(default=0)
    """How often it failed a lease or a health check."""
    enlisted: Mapped[datetime] = mapped_column(Utc(), default=now)
    last_seen: Mapped[datetime | None] = mapped_column(Utc(None))
    disbelieved: Mapped[int] = mapped_column(Whole(0, big=True), default=0, server_default="0")
    """Its last lease, by token, when its word was last taken back: nothing of this one or of those before it
    is stored any more."""


class LeaseRow(Base):
    """A lease. ``started``, ``expires`` and ``ended`` are seconds since the epoch, which both databases can
    reckon with; ``token`` is never used twice, not even after the row is gone."""

    __tablename__ = "leases"
    __table_args__ = (
        Index(
            "uq_leases_active",
            "board",
            unique=True,
            sqlite_where=text("state = 'active'"),
            postgresql_where=text("state = 'active'"),
        ),
        Index(None, "board", "ended"),
        {"sqlite_autoincrement": True},
    )
    token: Mapped[int] = mapped_column(RowId, primary_key=True)
    board: Mapped[str] = mapped_column(ForeignKey("boards.id"))
    holder: Mapped[str] = mapped_column(Word(200))
    purpose: Mapped[str] = mapped_column(Word(16, "check", tuple(Purpose)))
    job: Mapped[int | None] = mapped_column(Whole(big=True))
    state: Mapped[str] = mapped_column(Word(16))
    started: Mapped[float] = mapped_column(Moment)
    expires: Mapped[float] = mapped_column(Moment)
    ended: Mapped[float | None] = mapped_column(Real(most=Moment.most))
    trials: Mapped[int] = mapped_column(default=0)
    busy_s: Mapped[float] = mapped_column(Real(0.0), default=0.0)
    timed_s: Mapped[float] = mapped_column(Real(0.0), default=0.0)


class BoardDayRow(Base):
    """What a board was used for on one day (days since the epoch, UTC), by the leases that ended that day and
    are forgotten by now; and for how long a coordinator watched it that day, and found it in service."""

    __tablename__ = "board_days"
    board: Mapped[str] = mapped_column(ForeignKey("boards.id"), primary_key=True)
    day: Mapped[int] = mapped_column(Whole(0, 0, 2**21), primary_key=True, autoincrement=False)
    leases: Mapped[int] = mapped_column(default=0)
    leased_s: Mapped[float] = mapped_column(Real(0.0), default=0.0)
    timed_s: Mapped[float] = mapped_column(Real(0.0), default=0.0)
    trials: Mapped[int] = mapped_column(default=0)
    watched_s: Mapped[float] = mapped_column(Real(0.0), default=0.0, server_default="0")
    in_service_s: Mapped[float] = mapped_column(Real(0.0), default=0.0, server_default="0")


class BoardEventRow(Base):
    """One entry of a board's history."""

    __tablename__ = "board_history"
    __table_args__ = (Index(None, "board", "id"), Index(None, "at"))
    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    board: Mapped[str] = mapped_column(ForeignKey("boards.id"))
    at: Mapped[datetime] = mapped_column(Utc(), default=now)
    kind: Mapped[str] = mapped_column(Word(32))
    detail: Mapped[dict[str, Any]] = mapped_column(JSON)
