"""Routes of the workloads: what a person looks at to understand one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from kernels.target import Target
from server.db.stored import workload_of
from server.http.pages import Limit, Search, Threads, checked_once
from server.http.problems import responses
from server.services import Ctx
from server.workloads import insight, listing, repository
from server.workloads.explanation import asked, explained, question
from server.workloads.schemas import Explanation, Insight, TrialPoints, WorkloadPage, WorkloadView
from server.workloads.traffic import least_bytes

router = APIRouter(prefix="/workloads", tags=["records"])
Key = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="The workload's key.")]
TargetQuery = Annotated[str, Query(description="The target's name or key.", examples=["host"])]
Clock = Annotated[str, Query(pattern=r"^[!-~]{1,100}$", description="`wall` or `simulated:...`.")]


@router.get("", summary="List workloads", responses=responses(404, 422))
def find_workloads(
    ctx: Ctx,
    search: Search = None,
    target: Annotated[str | None, Query(description="Only those measured on this target.")] = None,
    limit: Limit = 50,
    after: Annotated[int | None, Query(ge=0, lt=2**31, description="The `next` of the page before.")] = None,
) -> WorkloadPage:
    """The workloads that were measured, those measured last first."""
    with ctx.db.read() as session:
        keys = None if target is None else ctx.targets.keys(session, target)
        return listing.page(session, search, keys, after or 0, limit)


@router.get("/{key}", summary="Read a workload", responses=responses(404, 422))
def get_workload(key: Key, ctx: Ctx) -> WorkloadView:
    """A workload, and for which targets, clocks and thread counts it was measured."""
    with ctx.db.read() as session:
        row = repository.get_row(session, key)
        workload = workload_of(row)
        return WorkloadView(
            key=key,
            text=str(workload),
            workload=row.document,
            flops=row.flops,
            unit=workload.unit,
            bytes=least_bytes(workload),
            measured=repository.measured(session, key),
        )


@router.get(
    "/{key}/trials",
    summary="List a workload's trials",
    response_model=TrialPoints,
    responses=responses(404, 422),
)
def list_trials(
    key: Key,
    ctx: Ctx,
    target: TargetQuery,
    clock: Clock = "wall",
    threads: Threads = 1,
    limit: Annotated[int, Query(ge=2, le=5000, description="Most trials of the answer.")] = 2000,
) -> Response:
    """Every config tried, oldest first. Where there are more than `limit`, the fastest half of the answer
    is kept whole and the rest is thinned evenly."""
    with ctx.db.read() as session:
        repository.get_row(session, key)
        keys = ctx.targets.keys(session, target)
        found = repository.trials(session, key, keys, clock, threads, limit)
    return checked_once(found)


@router.get("/{key}/insight", summary="Learn from a workload's trials", responses=responses(404, 422, 503))
async def read_insight(
    request: Request, key: Key, ctx: Ctx, target: TargetQuery, clock: Clock = "wall", threads: Threads = 1
) -> Insight:
    """How much each knob matters, by boosted trees on the trials, and what the machine model predicted."""

    def read() -> tuple[dict[str, Any], Sequence[int], tuple[Any, ...]]:
        with ctx.db.read() as session:
            return insight.asked(session, ctx.targets, key, target, clock, threads)

    payload, records, asked_for = await run_in_threadpool(read)
    async with ctx.learning.turn(request) as gone:
        return await run_in_threadpool(
            ctx.insights.get, asked_for, lambda: insight.found(ctx.nursery, payload, records, gone)
        )


@router.get("/{key}/explanation", summary="Explain a config", responses=responses(404, 422, 503))
async def explain_config(
    request: Request,
    key: Key,
    ctx: Ctx,
    target: TargetQuery,
    clock: Clock = "wall",
    threads: Threads = 1,
    config: Annotated[
        Literal["best", "analysis"],
        Query(description="The fastest record's, in any layouts, or the analysis's."),
    ] = "best",
    record: Annotated[
        int | None, Query(ge=1, lt=2**63, description="Explain the config of this record instead.")
    ] = None,
) -> Explanation:
    """The loop nest of a config, and what each loop touches against the sizes of the caches."""

    def read() -> tuple[dict[str, Any], Target, float | None]:
        with ctx.db.read() as session:
            return asked(session, ctx.targets, key, target, clock, threads, config, record)

    payload, machine, measured_s = await run_in_threadpool(read)
    async with ctx.compiling.turn(request) as gone:
        found = await run_in_threadpool(
            ctx.explanations.get, question(payload), lambda: explained(ctx.nursery, payload, gone)
        )
    levels = (("L1", machine.l1_bytes), ("L2", machine.l2_bytes), ("L3", machine.l3_bytes))
    return Explanation(
        **{**found, "caches": [{"level": level, "bytes": size} for level, size in levels if size]},
        measured_s=measured_s,
    )
