"""Routes of the workloads: what a person looks at to understand one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from kernels import workload as workloads
from server.db.tables import RecordRow, TargetRow, WorkloadRow
from server.pages import Threads
from server.problems import Problem, responses
from server.services import Ctx
from server.workloads.schemas import Measured, TrialPoint, TrialPoints, WorkloadView

router = APIRouter(prefix="/workloads", tags=["records"])
Key = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="The workload's key.")]
TargetQuery = Annotated[str, Query(description="The target's name or key.", examples=["host"])]
Clock = Annotated[str, Query(pattern=r"^[!-~]{1,100}$", description="`wall` or `simulated:...`.")]


@router.get("/{key}", summary="Read a workload", responses=responses(404, 422))
def get_workload(key: Key, ctx: Ctx) -> WorkloadView:
    """A workload, and for which targets, clocks and thread counts it was measured."""
    with ctx.db.read() as session:
        row = get_row(session, key)
        query = (
            select(
                TargetRow.name,
                TargetRow.key,
                RecordRow.clock,
                RecordRow.threads,
                func.count(),
                func.min(RecordRow.ranking_s),
            )
            .join(TargetRow, TargetRow.key == RecordRow.target_key)
            .where(RecordRow.workload_key == key)
            .group_by(TargetRow.name, TargetRow.key, RecordRow.clock, RecordRow.threads)
            .order_by(TargetRow.name, RecordRow.clock, RecordRow.threads)
        )
        measured = [
            Measured(target=name, target_key=of, clock=clock, threads=threads, records=count, best_s=best)
            for name, of, clock, threads, count, best in session.execute(query)
        ]
        workload = workloads.from_json(row.document)
        return WorkloadView(
            key=key,
            text=str(workload),
            workload=row.document,
            flops=row.flops,
            unit=workload.unit,
            measured=measured,
        )


@router.get("/{key}/trials", summary="List a workload's trials", responses=responses(404, 422))
def list_trials(
    key: Key,
    ctx: Ctx,
    target: TargetQuery,
    clock: Clock = "wall",
    threads: Threads = 1,
    limit: Annotated[int, Query(ge=2, le=5000, description="Most trials of the answer.")] = 2000,
) -> TrialPoints:
    """Every config tried, oldest first. Where there are more than `limit`, the fastest half of the answer
    is kept whole and the rest is thinned evenly."""
    with ctx.db.read() as session:
        get_row(session, key)
        keys = ctx.targets.keys(session, target)
        chosen = (
            RecordRow.workload_key == key,
            RecordRow.target_key.in_(keys),
            RecordRow.clock == clock,
            RecordRow.threads == threads,
        )
        found = session.execute(
            select(RecordRow.id, RecordRow.ranking_s).where(*chosen).order_by(RecordRow.id)
        )
        costs = [(row.id, row.ranking_s) for row in found]
        ids = kept(costs, limit)
        rows = [
            row
            for at in range(0, len(ids), 500)
            for row in session.execute(
                select(RecordRow).where(RecordRow.id.in_(ids[at : at + 500])).order_by(RecordRow.id)
            ).scalars()
        ]
        items = [
            TrialPoint(
                record=row.id,
                config=row.document["config"],
                cost_s=row.document.get("verified_s") or row.document.get("cost_s"),
                ranking_s=row.ranking_s,
                error=row.error,
                layouts=row.layouts,
                numerics="exact" if row.exact else "relaxed",
            )
            for row in rows
        ]
    return TrialPoints(items=items, total=len(costs))


def kept(costs: list[tuple[int, float | None]], limit: int) -> list[int]:
    """The ids of at most ``limit`` of the (id, cost), in their order: the fastest half, then an even part."""
    if len(costs) <= limit:
        return [id_ for id_, _ in costs]
    ran = sorted((cost, id_) for id_, cost in costs if cost is not None)
    fastest = {id_ for _, id_ in ran[: limit // 2]}
    rest = [id_ for id_, _ in costs if id_ not in fastest]
    room = limit - len(fastest)
    even = {rest[at * len(rest) // room] for at in range(room)}
    return [id_ for id_, _ in costs if id_ in fastest or id_ in even]


def get_row(session: Session, key: str) -> WorkloadRow:
    """The workload's row, or a 404."""
    row = session.get(WorkloadRow, key)
    if row is None:
        raise Problem(404, f"there is no workload {key}")
    return row
