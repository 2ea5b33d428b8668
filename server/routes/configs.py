"""Routes of the best configs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from kernels.layout import Layouts
from kernels.numerics import Numerics
from server.http.pages import Limit, Threads, checked_once
from server.http.problems import Problem, invalid, responses
from server.records import news, repository, views
from server.records.logs import Allowed
from server.records.schemas import BestRecords, RecentBests, Record
from server.services import Ctx

router = APIRouter(prefix="/configs", tags=["configs"])
TargetNamed = Annotated[str, Query(description="The target's name or key.", examples=["host"])]
LayoutsOrAny = Annotated[
    str, Query(description="What the config reads and writes: `nchw`, `nchw8c>nchw` and so on, or `any`.")
]


@router.get("", summary="List best configs", response_model=BestRecords, responses=responses(404, 422))
def list_best_configs(
    ctx: Ctx,
    target: TargetNamed,
    threads: Threads = 1,
    numerics: Allowed = Numerics.EXACT_INTEGERS,
    layouts: LayoutsOrAny = "nchw",
    limit: Limit = 100,
    after: Annotated[
        str | None,
        Query(pattern="^[0-9a-f]{1,64}$", description="The `next` of the page before, a workload's key."),
    ] = None,
) -> Response:
    """The fastest correct record of every workload that was tuned for a target, by the workload's key.

    One for each clock, and for each pair of layouts where `any` is asked for. `limit` is of workloads.
    """
    with ctx.db.read() as session:
        keys = ctx.targets.keys(session, target)
        found, more = repository.bests(session, keys, threads, numerics, _pair(layouts), after, limit)
    return checked_once(BestRecords(items=[views.show(*each) for each in found], next=more))


@router.get("/best", summary="Find the best config", responses=responses(404, 422))
def get_best_config(
    ctx: Ctx,
    workload: Annotated[str, Query(description="The workload's key.", examples=["0f3a9c1d2b4e5f60"])],
    target: TargetNamed,
    threads: Threads = 1,
    clock: Annotated[str, Query(description="`wall` or `simulated:...`.")] = "wall",
    numerics: Allowed = Numerics.EXACT_INTEGERS,
    layouts: LayoutsOrAny = "nchw",
) -> Record:
    """The fastest correct record of this workload on this target; outdated kernels are left out.

    One that was measured quietly comes before all that were disturbed.

    In `nchw` unless told otherwise: a config that can be used by itself.
    """
    pair = _pair(layouts)
    with ctx.db.read() as session:
        found = [
            record
            for key in ctx.targets.keys(session, target)
            if (record := repository.best(session, workload, key, clock, threads, numerics, pair)) is not None
        ]
    if not found:
        kind = "record of an exact config" if numerics is Numerics.EXACT else "record"
        raise Problem(
            404,
            f"no {kind} of workload {workload} on target {target} with threads={threads}, "
            f"clock={clock} and layouts {layouts}",
        )
    return views.show(*min(found, key=lambda each: each[1].rank))


@router.get("/recent", summary="List recent bests")
def list_recent_bests(
    ctx: Ctx, limit: Annotated[int, Query(ge=1, le=100, description="Most entries.")] = 10
) -> RecentBests:
    """The bests of all jobs' tasks that were measured last."""
    with ctx.db.read() as session:
        return news.recent_bests(session, limit)


def _pair(layouts: str) -> Layouts | None:
    try:
        return None if layouts == "any" else Layouts.read(layouts)
    except ValueError as error:
        raise invalid(str(error), "query", "layouts") from None
