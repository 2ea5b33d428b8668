"""Routes of the baselines, which belong to a workload."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from server.baselines import repository
from server.baselines.schemas import Baseline, BaselineList, Timing
from server.db.tables import BaselineRow, now
from server.http.json_text import JsonRoute
from server.http.pages import Threads
from server.http.problems import responses
from server.records.repository import add_targets
from server.routes.workloads import Clock, Key, TargetQuery
from server.services import Ctx
from server.workloads.repository import get_row

router = APIRouter(prefix="/workloads", tags=["records"], route_class=JsonRoute)
Library = Annotated[
    str, Path(pattern=r"^[\w.+-]{1,64}$", description="The library's name.", examples=["onnxruntime"])
]


@router.get("/{key}/baselines", summary="List a workload's baselines", responses=responses(404, 422))
def list_baselines(
    key: Key, ctx: Ctx, target: TargetQuery, clock: Clock = "wall", threads: Threads = 1
) -> BaselineList:
    """What libraries take for this workload there, the fastest first."""
    with ctx.db.read() as session:
        get_row(session, key)
        keys = ctx.targets.keys(session, target)
        found = repository.of_workloads(session, [key], keys, clock, threads)
    return BaselineList(items=found.get(key, []))


@router.put("/{key}/baselines/{library}", summary="Store a baseline", responses=responses(404, 413, 422))
def put_baseline(
    key: Key,
    library: Library,
    timing: Timing,
    ctx: Ctx,
    target: TargetQuery,
    clock: Clock = "wall",
    threads: Threads = 1,
) -> Baseline:
    """Store what a library takes on the machine of `target`; it takes the place of an earlier time."""
    known = ctx.targets.get(target, "query", "target")
    with ctx.db.write() as session:
        get_row(session, key)
        add_targets(session, [known])
        place = {"workload_key": key, "target_key": known.key, "clock": clock, "threads": threads}
        row = BaselineRow(**place, library=library, measured=now(), **timing.model_dump())
        session.merge(row)
        return Baseline(library=library, **timing.model_dump(), measured=row.measured)
