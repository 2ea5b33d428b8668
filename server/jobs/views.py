"""Reading jobs and tasks as the API shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import Select, case, func, select
from sqlalchemy.orm import Session, aliased

from kernels.numerics import Numerics
from kernels.workload.base import KINDS, Workload
from server.baselines import repository as baselines
from server.db.documents import UNREADABLE, fitting, readable
from server.db.stored import workload_of
from server.db.tables import (
    BandwidthRow,
    DeletedJobRow,
    JobRow,
    LabelRow,
    ModelRow,
    PeakRow,
    RecordRow,
    TargetRow,
    TaskRow,
    TrialRow,
    WorkloadRow,
)
from server.http.pages import thin
from server.http.problems import Problem
from server.jobs.built import BuiltModel, BuiltShapes, JobVerdict, Operator
from server.jobs.schemas import Job, JobBudget, Share, Task, Waiting
from server.jobs.totals import Totals, errors_of, of_tasks
from server.jobs.verdicts import verdict_of, why_no_verdict
from server.models.schemas import ModelCheck
from server.records import told
from server.records.leaders import LEADS
from server.workloads.traffic import least_bytes
from tuner.backend.check import Delivery
from tuner.job.estimate import Sums
from tuner.states import JobState, Phase, TaskState

_SHAPES = dict[str, list[int]] | list[dict[str, list[int]]] | None


@dataclass(frozen=True)
class Live:
    """What only the process that runs a job knows of it."""

    elapsed_s: float
    trials_per_s: float | None = None
    eta_s: float | None = None
    phase: Phase | None = None
    waiting: Waiting | None = None
    shares: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By task."""
    cancelling: bool = False
    """Whether somebody ended it, which no row may say yet."""
    trouble: str = ""
    """Why it waits, with all others."""


def get_row(session: Session, job_id: int, *, lock: bool = False) -> JobRow:
    """The job's row, or a 404; with ``lock`` nobody else changes it until the transaction ends."""
    row = session.get(JobRow, job_id, with_for_update=lock)
    if row is None:
        gone = session.get(DeletedJobRow, job_id)
        when = f": it was deleted on {gone.deleted:%d %B %Y}; what it measured is still there" if gone else ""
        raise Problem(404, f"there is no job {job_id}{when}")
    return row


def show_all(
    session: Session,
    rows: Sequence[JobRow],
    live_of: Callable[[int], Live | None],
    waiting: Mapping[int, Waiting],
    first_look_s: Callable[[JobRow, int], float | None],
) -> list[Job]:
    """Several jobs, asked for together; ``live_of`` gives what runs in this process, by id, ``waiting`` why
    those that are queued wait, ``first_look_s`` what a model of so many layers takes until its first result.
    """
    related = _related(session, rows)
    jobs = [_show(row, live_of(row.id), related, waiting.get(row.id)) for row in rows]
    for row, job in zip(rows, jobs, strict=True):
        if row.model_hash is not None and not job.ended:
            job.first_look_s = first_look_s(row, related.tasks.get(row.id, Totals()).count)
    return jobs


@dataclass(frozen=True)
class _Related:
    """What rows of jobs refer to."""

    models: dict[str, str]
    """Names by hash."""
    workloads: dict[str, dict[str, Any]]
    targets: dict[str, str]
    peaks: dict[tuple[str, int, str], float]
    labels: dict[int, list[str]]
    tasks: dict[int, Totals]
    errors: dict[int, dict[str, int]]


def _related(session: Session, rows: Sequence[JobRow]) -> _Related:
    ids = [row.id for row in rows]
    models = select(ModelRow.hash, ModelRow.name).where(ModelRow.hash.in_({row.model_hash for row in rows}))
    keys = {row.workload_key for row in rows}
    workloads = select(WorkloadRow.key, WorkloadRow.document).where(WorkloadRow.key.in_(keys))
    keys = {row.target_key for row in rows}
    targets = select(TargetRow.key, TargetRow.name).where(TargetRow.key.in_(keys))
    labels: dict[int, list[str]] = {}
    words = select(LabelRow).where(LabelRow.job_id.in_(ids)).order_by(LabelRow.label)
    for label in session.scalars(words):
        labels.setdefault(label.job_id, []).append(label.label)
    return _Related(
        {row.hash: row.name for row in session.execute(models)},
        {row.key: row.document for row in session.execute(workloads)},
        {row.key: row.name for row in session.execute(targets)},
        told.peaks(session, {row.target_key for row in rows}),
        labels,
        of_tasks(session, ids),
        errors_of(session, ids),
    )


def _show(row: JobRow, live: Live | None, related: _Related, waiting: Waiting | None) -> Job:
    tasks = related.tasks.get(row.id, Totals())
    measured = tasks.trials - tasks.reused
    ended = Live(row.elapsed_s, measured / row.elapsed_s if row.elapsed_s > 0 else None)
    live = live or ended
    state = JobState.CANCELLING if live.cancelling and row.state == JobState.RUNNING else JobState(row.state)
    (built, verdict), of = _told(row), f"job {row.id}"
    unfinished = state.final and built is None and tasks.sums.open > 0
    workload = related.workloads.get(row.workload_key or "")
    return Job(
        id=row.id,
        model=row.model_hash,
        model_name=related.models.get(row.model_hash or ""),
        workload=fitting(workload, dict[str, Any] | None, None, f"the workload of {of}"),
        target=related.targets.get(row.target_key, UNREADABLE),
        threads=row.threads,
        clock=row.clock,
        strategy=row.strategy,
        seed=row.seed,
        numerics=Numerics(row.numerics),
        priority=row.priority,
        tags=sorted(fitting(row.tags, list[str], [], f"the tags of {of}")),
        name=row.name,
        labels=related.labels.get(row.id, []),
        submitter=row.submitter,
        version=row.version,
        budget=JobBudget(trials=row.budget_trials, seconds=row.budget_seconds),
        shapes=fitting(
            row.shapes, dict[str, list[int]] | list[dict[str, list[int]]] | None, None, f"the shapes of {of}"
        ),
        state=state,
        message=row.message or live.trouble,
        waiting=waiting or live.waiting,
        deadline=row.deadline,
        created=row.created,
        started=row.started,
        finished=row.finished,
        trials=tasks.trials,
        failed=tasks.failed,
        reused=tasks.reused,
        trials_per_s=live.trials_per_s,
        phase=live.phase,
        eta_s=live.eta_s,
        elapsed_s=live.elapsed_s,
        estimated_ms=None if unfinished else _total_ms(tasks.sums, built, row.others_s),
        verdict=verdict,
        no_verdict="" if verdict else why_no_verdict(row, built),
        built=built,
        peak_gflops=related.peaks.get((row.target_key, row.threads, row.clock)),
        errors=related.errors.get(row.id, {}),
    )


def show_tasks(session: Session, row: JobRow, live: Live | None) -> list[Task]:
    """The tasks of a job in the order of the model; ``live`` when it runs in this process."""
    best, recommended = aliased(RecordRow), aliased(RecordRow)
    query = (
        select(TaskRow, WorkloadRow, best, recommended.ranking_s)
        .join(WorkloadRow, WorkloadRow.key == TaskRow.workload_key)
        .outerjoin(best, best.id == TaskRow.best_id)
        .outerjoin(recommended, recommended.id == TaskRow.recommended_id)
        .where(TaskRow.job_id == row.id)
        .order_by(TaskRow.id)
    )
    curves = _curves(session, row.id)
    peak = _peak(session, row)
    bandwidth = told.value(session, BandwidthRow, (row.target_key, row.threads, row.clock))
    tasks = []
    found = session.execute(query).all()
    keys = [workload.key for _, workload, _, _ in found]
    libraries = baselines.of_workloads(session, keys, [row.target_key], row.clock, row.threads)
    for task, stored, record, recommended_s in found:
        workload = readable(partial(workload_of, stored), None, f"task {task.id}")
        said = record.document if record and isinstance(record.document, dict) else {}
        best_s = record.ranking_s if record else None
        unit = KINDS[stored.kind].unit
        gflops = stored.flops / best_s / 1e9 if best_s else None
        reachable = peak if unit == "FLOP" else None
        tasks.append(
            Task(
                id=task.id,
                workload_key=stored.key,
                text=f"{stored.kind} {stored.key} ({UNREADABLE})" if workload is None else str(workload),
                workload={} if workload is None else stored.document,
                weight=task.weight,
                flops=stored.flops,
                unit=unit,
                state=TaskState(task.state).at(JobState(row.state), task.trials),
                trials=task.trials,
                failed=task.failed,
                reused=task.reused,
                best_s=best_s,
                recommended_s=recommended_s,
                gflops=gflops,
                share_of_peak=gflops / reachable if gflops and reachable else None,
                bound_s=workload and _bound(workload, reachable, bandwidth),
                best_disturbed=bool(record and record.disturbed),
                best_spread=fitting(said.get("spread"), float | None, None, f"a record of task {task.id}"),
                best_kernel_version=record.kernel_version if record else None,
                best_config=fitting(
                    said.get("config"), dict[str, int | str] | None, None, f"a record of task {task.id}"
                ),
                best_layouts=record.layouts if record else None,
                curve=curves.get(task.id, []),
                baselines=libraries.get(stored.key, []),
                share=_share(live, task.id),
                errors=fitting(task.errors, dict[str, int], {}, f"the errors of task {task.id}"),
                messages=fitting(task.messages, dict[str, str], {}, f"the messages of task {task.id}"),
            )
        )
    return tasks


def _share(live: Live | None, task_id: int) -> Share | None:
    found = live.shares.get(task_id) if live else None
    return Share.model_validate(found) if found else None


def leaders_of(job_id: int) -> Select[Any]:
    """Row, task, number and seconds of a job's trials that lead; None for what was disturbed when its task's
    best was not."""
    best = aliased(RecordRow)
    seconds = case((RecordRow.disturbed == best.disturbed, RecordRow.ranking_s))
    return (
        select(TrialRow.id, TrialRow.task_id, TrialRow.number, seconds)
        .join(RecordRow, RecordRow.id == TrialRow.record_id)
        .join(JobRow, JobRow.id == TrialRow.job_id)
        .join(TaskRow, TaskRow.id == TrialRow.task_id)
        .outerjoin(best, best.id == TaskRow.best_id)
        .where(TrialRow.job_id == job_id, LEADS, RecordRow.clock == JobRow.clock)
    )


def _curves(session: Session, job_id: int) -> dict[int, list[tuple[int, float]]]:
    """Best-so-far curves by task: a point where the best cost fell, and one at the last trial."""
    query = leaders_of(job_id).order_by(TrialRow.task_id, TrialRow.number)
    curves: dict[int, list[tuple[int, float]]] = {}
    for _, task_id, number, cost in session.execute(query):
        curve = curves.setdefault(task_id, [])
        if cost is not None and (not curve or cost < curve[-1][1]):
            curve.append((number, cost))
    number = select(func.max(TrialRow.number)).where(TrialRow.task_id == TaskRow.id).scalar_subquery()
    for task_id, last in session.execute(select(TaskRow.id, number).where(TaskRow.job_id == job_id)):
        curve = curves.get(task_id, [])
        if curve and curve[-1][0] < last:
            curve.append((last, curve[-1][1]))
    return {task_id: list(thin(curve)) for task_id, curve in curves.items()}


def whole_ms(layers_s: float, built: BuiltModel | None, share: float = 0.0) -> float:
    """What the whole model is expected to take when its layers by themselves take ``layers_s``.

    Until it is built, the rest of it is expected to take a ``share`` of that.
    """
    if built is None:
        return 1e3 * layers_s * (1 + share)
    return 1e3 * layers_s * built.in_place + (built.other_ms or 0.0)


def _total_ms(sums: Sums, built: BuiltModel | None, others_s: float) -> float | None:
    layers_s = sums.layers_s
    return None if layers_s is None else whole_ms(layers_s, built, sums.share_of(others_s))


def built_of(row: JobRow) -> BuiltModel | None:
    """What is known of the job's model as it was built; None before."""
    return _told(row)[0]


def _told(row: JobRow) -> tuple[BuiltModel | None, JobVerdict | None]:
    """The job's model as it was built, and what tuning gained; None of what is not known."""
    if (document := row.delivery) is None:
        return None, None

    def read() -> tuple[BuiltModel | None, JobVerdict | None]:
        delivery = Delivery.from_json(document)
        unbuilt = delivery.seconds is None and not delivery.check.wrong
        return None if unbuilt else _built(delivery), verdict_of(delivery)

    found = readable(read, None, f"the build of job {row.id}")
    return (None, None) if found is None else found


def _built(delivery: Delivery) -> BuiltModel:
    return BuiltModel(
        measured_ms=None if delivery.seconds is None else 1e3 * delivery.seconds,
        spread=delivery.spread,
        other_ms=None if delivery.other_s is None else 1e3 * delivery.other_s,
        in_place=delivery.in_place,
        operators=operators_of(delivery),
        checked=delivery.check.checked,
        check=ModelCheck(**vars(delivery.check)),
        each=[
            BuiltShapes(
                shapes={name: list(shape) for name, shape in (one.shapes or {}).items()},
                measured_ms=None if one.seconds is None else 1e3 * one.seconds,
                spread=one.spread,
                check=ModelCheck(**vars(one.check)),
            )
            for one in delivery.each
        ],
    )


def operators_of(delivery: Delivery) -> list[Operator]:
    """What a built model's time goes into."""
    return [
        Operator(
            name=each["name"],
            workload_key=each["key"] or None,
            calls=each["calls"],
            ms=1e3 * each["seconds"],
            share=each["seconds"] / delivery.seconds,
        )
        for each in delivery.operators
        if delivery.seconds
    ]


def _bound(workload: Workload, peak: float | None, bandwidth: float | None) -> float | None:
    """The roofline in seconds: operations at the peak or bytes at the bandwidth, what takes longer."""
    if peak is None or bandwidth is None:
        return None
    return max(workload.flops / peak, least_bytes(workload) / bandwidth) / 1e9


def _peak(session: Session, row: JobRow) -> float | None:
    peak: float | None = told.value(session, PeakRow, (row.target_key, row.threads, row.clock))
    return peak
