"""Routes of the workloads: what a person looks at to understand one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from starlette.concurrency import run_in_threadpool

from kernels.target import Target
from kernels.workload import base as workloads
from server.http.pages import Threads
from server.http.problems import responses
from server.services import Ctx
from server.workloads import repository
from server.workloads.explanation import asked, explained
from server.workloads.schemas import Explanation, TrialPoints, WorkloadView

router = APIRouter(prefix="/workloads", tags=["records"])
Key = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$", description="The workload's key.")]
TargetQuery = Annotated[str, Query(description="The target's name or key.", examples=["host"])]
Clock = Annotated[str, Query(pattern=r"^[!-~]{1,100}$", description="`wall` or `simulated:...`.")]


@router.get("/{key}", summary="Read a workload", responses=responses(404, 422))
def get_workload(key: Key, ctx: Ctx) -> WorkloadView:
    """A workload, and for which targets, clocks and thread counts it was measured."""
    with ctx.db.read() as session:
        row = repository.get_row(session, key)
        workload = workloads.from_json(row.document)
        return WorkloadView(
            key=key,
            text=str(workload),
            workload=row.document,
            flops=row.flops,
            unit=workload.unit,
            measured=repository.measured(session, key),
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
        repository.get_row(session, key)
        keys = ctx.targets.keys(session, target)
        return repository.trials(session, key, keys, clock, threads, limit)


@router.get("/{key}/explanation", summary="Explain a config", responses=responses(404, 422, 503))
async def explain_config(
    key: Key,
    ctx: Ctx,
    target: TargetQuery,
    clock: Clock = "wall",
    threads: Threads = 1,
    config: Annotated[
        Literal["best", "analysis"],
        Query(description="The fastest record's, in any layouts, or the analysis's."),
    ] = "best",
) -> Explanation:
    """The loop nest of a config, and what each loop touches against the sizes of the caches."""

    def read() -> tuple[dict[str, Any], Target, float | None]:
        with ctx.db.read() as session:
            return asked(session, ctx.targets, key, target, clock, threads, config)

    payload, machine, measured_s = await run_in_threadpool(read)
    async with ctx.compiling.turn():
        found = await run_in_threadpool(explained, ctx.nursery, payload)
    levels = (("L1", machine.l1_bytes), ("L2", machine.l2_bytes), ("L3", machine.l3_bytes))
    return Explanation(
        **{**found, "caches": [{"level": level, "bytes": size} for level, size in levels if size]},
        measured_s=measured_s,
    )
