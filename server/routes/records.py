"""Routes of the records."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from server.http.pages import AfterId, Limit, checked_once
from server.http.problems import responses
from server.http.uploads import received
from server.records import forgetting, news, repository, search, views
from server.records.importer import import_log
from server.records.logs import EXAMPLE, MEDIA_TYPE, TABLE_RESPONSE, csv_response, log_response
from server.records.schemas import (
    DamagedPage,
    DamagedRecord,
    Forgotten,
    Imported,
    RecordPage,
    RecordRate,
)
from server.records.search import Filter, Sort
from server.services import Ctx
from worker.outcome import ErrorKind

router = APIRouter(prefix="/records", tags=["records"])
MOST_ROWS = 20_000
"""Of a table, which is made whole: its columns are all knobs that any of its records has."""
_LOG_BODY = {
    "requestBody": {
        "required": True,
        "description": "JSON lines, one record each.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": EXAMPLE}},
    }
}


def _filter(
    ctx: Ctx,
    search: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Words, each of which is in the workload's text or the kernel's name.",
            examples=["conv 3x3"],
        ),
    ] = None,
    workload: Annotated[str | None, Query(description="A workload's key.")] = None,
    target: Annotated[str | None, Query(description="A target's name or key.")] = None,
    job: Annotated[int | None, Query(ge=1, lt=2**63, description="A job's id.")] = None,
    error: Annotated[
        ErrorKind | Literal["any", "none"] | None, Query(description="An error kind, `any` or `none`.")
    ] = None,
    kernel: Annotated[str | None, Query(description="A kernel's name.", examples=["fconv"])] = None,
    threads: Annotated[int | None, Query(ge=1, le=4096, description="Threads that kernels ran on.")] = None,
    clock: Annotated[str | None, Query(description="`wall` or `simulated:...`.")] = None,
) -> Filter:
    """Which records are asked for."""
    keys = None
    if target is not None:
        with ctx.db.read() as session:
            keys = ctx.targets.keys(session, target)
    return Filter(search, workload, keys, job, error, kernel, threads, clock)


Which = Annotated[Filter, Depends(_filter)]


@router.get("", summary="List records", response_model=RecordPage, responses=responses(404, 422))
def list_records(
    ctx: Ctx,
    which: Which,
    sort: Annotated[
        Sort,
        Query(
            description="Which come first: by when they were stored, by the time that they rank by, or by "
            "the rate; those without a time are left out of the last four."
        ),
    ] = "oldest",
    limit: Limit = 100,
    after: AfterId = None,
) -> Response:
    """Records that meet all that is asked of them, in the order that is asked for."""
    with ctx.db.read() as session:
        found, more, left_out = search.page(session, which, sort, after, limit)
    items = [views.show(*each) for each in found]
    return checked_once(RecordPage(items=items, next=None if more is None else str(more), left_out=left_out))


@router.get(
    "/log",
    summary="Download records",
    response_class=StreamingResponse,
    responses={**TABLE_RESPONSE, **responses(404, 422, 503)},
)
def download_records(
    request: Request,
    ctx: Ctx,
    which: Which,
    format: Annotated[
        Literal["log", "csv"], Query(description="A tuning log of JSON lines, or a table.")
    ] = "log",
) -> StreamingResponse:
    """All records that meet what is asked of them, failures too, oldest first: a list as a file."""
    if format == "csv":
        with ctx.db.read() as session:
            search.refuse_more(session, which, MOST_ROWS)
        return csv_response(request, ctx.exporting, ctx.tables, search.every(ctx.db, which), "records")
    return log_response(request, ctx.exporting, search.every(ctx.db, which), [], "records")


@router.post(
    "",
    summary="Import a tuning log",
    responses=responses(400, 404, 413, 415, 422, 503),
    openapi_extra=_LOG_BODY,
)
async def import_records(
    request: Request,
    ctx: Ctx,
    target: Annotated[str | None, Query(description="Refuse records of any other target.")] = None,
) -> Imported:
    """Add the records of a log, deduplicated; a damaged line or another target's record refuses it all."""
    wanted = None if target is None else ctx.targets.get(target)

    async with received(request, ctx.models.incoming) as upload, ctx.importing.turn(request) as gone:
        imported, duplicates = await run_in_threadpool(import_log, ctx.db, upload.path, wanted, gone)
    return Imported(imported=imported, duplicates=duplicates)


@router.get("/damaged", summary="List damaged records")
def list_damaged_records(
    ctx: Ctx,
    limit: Annotated[int, Query(ge=1, le=200, description="How many rows to look at.")] = 200,
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
