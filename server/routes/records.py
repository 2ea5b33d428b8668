"""Routes of the records."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from server.http.pages import AfterId, Limit
from server.http.problems import responses
from server.http.uploads import received
from server.records import forgetting, news, repository, views
from server.records.importer import import_log
from server.records.logs import EXAMPLE, MEDIA_TYPE
from server.records.schemas import (
    DamagedPage,
    DamagedRecord,
    Forgotten,
    Imported,
    RecordPage,
    RecordRate,
)
from server.services import Ctx
from worker.outcome import ErrorKind

router = APIRouter(prefix="/records", tags=["records"])
_LOG_BODY = {
    "requestBody": {
        "required": True,
        "description": "JSON lines, one record each.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": EXAMPLE}},
    }
}


@router.get("", summary="List records", responses=responses(404, 422))
def list_records(
    ctx: Ctx,
    workload: Annotated[str | None, Query(description="A workload's key.")] = None,
    target: Annotated[str | None, Query(description="A target's name or key.")] = None,
    job: Annotated[int | None, Query(ge=1, lt=2**63, description="A job's id.")] = None,
    error: Annotated[
        ErrorKind | Literal["any", "none"] | None, Query(description="An error kind, `any` or `none`.")
    ] = None,
    sort: Annotated[
        Literal["oldest", "newest"], Query(description="Which come first, by when they were stored.")
    ] = "oldest",
    limit: Limit = 100,
    after: AfterId = None,
) -> RecordPage:
    """Records in the order they were stored, or the newest first."""
    with ctx.db.read() as session:
        keys = None if target is None else ctx.targets.keys(session, target)
        found, more = repository.page(
            session,
            workload=workload,
            target_keys=keys,
            job=job,
            error=error,
            after=after,
            newest=sort == "newest",
            limit=limit,
        )
    items = [views.show(*each) for each in found]
    return RecordPage(items=items, next=None if more is None else str(more))


@router.post(
    "", summary="Import a tuning log", responses=responses(404, 413, 415, 422), openapi_extra=_LOG_BODY
)
async def import_records(
    request: Request,
    ctx: Ctx,
    target: Annotated[str | None, Query(description="Refuse records of any other target.")] = None,
) -> Imported:
    """Add the records of a log, deduplicated; a damaged line or another target's record refuses it all."""
    wanted = None if target is None else ctx.targets.get(target)

    async with received(request, ctx.models.incoming) as upload:

        def read() -> tuple[int, int]:
            with upload.path.open("rb") as lines:
                return import_log(ctx.db, lines, wanted)

        imported, duplicates = await run_in_threadpool(read)
    return Imported(imported=imported, duplicates=duplicates)


@router.get("/damaged", summary="List damaged records")
def list_damaged_records(
    ctx: Ctx,
    limit: Annotated[int, Query(ge=1, le=10_000, description="How many rows to look at.")] = 10_000,
    after: AfterId = None,
) -> DamagedPage:
    """Rows that cannot be read: other lists leave them out. They can be deleted."""
    with ctx.db.read() as session:
        found, more = repository.damaged(session, after or 0, limit)
    items = [DamagedRecord(id=id_, problem=problem) for id_, problem in found]
    return DamagedPage(items=items, next=None if more is None else str(more))


@router.delete("/imported", summary="Delete imported records")
def delete_imported_records(ctx: Ctx) -> Forgotten:
    """Delete all that came in logs and was not measured here since."""
    with ctx.db.write() as session:
        return Forgotten(records=forgetting.forget_imported(session))


@router.delete("/{record_id}", summary="Delete a record", responses=responses(404, 409, 422))
def delete_record(
    record_id: Annotated[int, Path(ge=1, lt=2**63, description="The record's number.")], ctx: Ctx
) -> Forgotten:
    """Delete a record that is damaged or came in a log; what was measured here stays."""
    with ctx.db.write() as session:
        forgetting.forget(session, record_id)
    return Forgotten(records=1)


@router.get("/rate", summary="Count records by minute")
def get_record_rate(
    ctx: Ctx, minutes: Annotated[int, Query(ge=1, le=1440, description="How far back to go.")] = 60
) -> RecordRate:
    """How many records were stored in each of the last minutes, the present one included."""
    with ctx.db.read() as session:
        return news.rate(session, minutes)
