"""Routes of the targets."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import StreamingResponse

from kernels.numerics import Numerics
from server.db.tables import RelayoutRow
from server.http.problems import responses
from server.records import repository, told
from server.records.logs import LOG_RESPONSE, Allowed, K, Select, log_response
from server.services import Ctx
from server.targets.schemas import Target, TargetList

TargetName = Annotated[str, Path(description="The target's name.", examples=["host"])]
router = APIRouter(prefix="/targets", tags=["targets"])


@router.get("", summary="List targets")
def list_targets(ctx: Ctx) -> TargetList:
    """The built-in targets and those of the boards."""
    return TargetList(items=[Target.model_validate(target) for target in ctx.targets.known.values()])


@router.get("/{name}", summary="Read a target", responses=responses(404))
def get_target(name: TargetName, ctx: Ctx) -> Target:
    """One target by its name."""
    return Target.model_validate(ctx.targets.get(name))


@router.get(
    "/{name}/log",
    summary="Download a target's tuning log",
    response_class=StreamingResponse,
    responses={**LOG_RESPONSE, **responses(404, 422, 503)},
)
def get_target_log(
    name: TargetName,
    request: Request,
    ctx: Ctx,
    select: Select = "best",
    k: K = 10,
    numerics: Allowed = Numerics.EXACT_INTEGERS,
) -> StreamingResponse:
    """The records of all jobs and imports for this target."""
    with ctx.db.read() as session:
        keys = ctx.targets.keys(session, name)
        relayouts = told.relayouts(session, RelayoutRow.target_key.in_(keys))
    records = repository.log(ctx.db, select, k, target_keys=keys, numerics=numerics)
    return log_response(request, ctx.exporting, records, relayouts, "target")
