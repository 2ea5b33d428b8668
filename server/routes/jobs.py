"""Routes of the jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from kernels.numerics import Numerics
from server.db.tables import JobRow, RelayoutRow
from server.events.base import END, Event
from server.http.json_text import JsonRoute
from server.http.pages import AfterId, JobId, Limit, checked_once
from server.http.problems import Problem, responses
from server.jobs import listing, views
from server.jobs.listing import Wanted
from server.jobs.order import Order
from server.jobs.progress import progress
from server.jobs.schemas import (
    ENDED,
    Budget,
    Job,
    JobChange,
    JobPage,
    JobRequest,
    LabelList,
    Progress,
    Resumed,
    Resumption,
    TaskList,
)
from server.jobs.store import delivers_untuned
from server.records import repository, told
from server.records.logs import LOG_RESPONSE, Allowed, K, Select, log_response
from server.services import Ctx, Services
from tuner.states import JobState

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=JsonRoute)


def _read(ctx: Services, job_id: int) -> Job:
    with ctx.db.read() as session:
        return _show(ctx, session, [views.get_row(session, job_id)])[0]


def _show(ctx: Services, session: Session, rows: Sequence[JobRow]) -> list[Job]:
    manager = ctx.manager
    waiting = manager.why_queued(session, rows)
    return views.show_all(session, rows, manager.live, waiting, manager.first_look_s)


@router.post("", status_code=201, summary="Create a job", responses=responses(413, 422, 503))
async def create_job(asked: JobRequest, request: Request, response: Response, ctx: Ctx) -> Job:
    """Start tuning a model or one workload for a target."""
    async with ctx.reading.turn(request) if asked.shapes is not None else nullcontext() as gone:
        job_id, demand = await run_in_threadpool(ctx.jobs.create, asked, gone)
    ctx.manager.submit([job_id], demand)
    response.headers["Location"] = f"/api/v1/jobs/{job_id}"
    return await run_in_threadpool(_read, ctx, job_id)


@router.get("", summary="List jobs", responses=responses(422))
def list_jobs(
    ctx: Ctx,
    state: Annotated[list[JobState] | None, Query(description="Only jobs in one of these states.")] = None,
    target: Annotated[str | None, Query(description="Only jobs for the target of this name.")] = None,
    model: Annotated[
        str | None, Query(min_length=1, description="Only jobs of the model of this name or hash.")
    ] = None,
    label: Annotated[
        list[str] | None, Query(max_length=20, description="Only jobs that have all of these labels.")
    ] = None,
    search: Annotated[
        str | None,
        Query(
            max_length=200,
            description="Words that must all be in the name, number, submitter, model, target, strategy or "
            "labels of the job.",
        ),
    ] = None,
    sort: Annotated[Order, Query(description="What they are sorted by.")] = Order.ID,
    order: Annotated[
        Literal["down", "up"], Query(description="`down` has the newest, the last or the longest first.")
    ] = "down",
    limit: Limit = 50,
    after: AfterId = None,
) -> JobPage:
    """Jobs, the newest first unless told otherwise."""
    wanted = Wanted(state or (), target, model, label or (), search)
    with ctx.db.read() as session:
        rows = listing.rows(session, wanted, sort, order == "down", after, limit + 1)
        items = _show(ctx, session, rows[:limit])
        total = listing.count(session, wanted)
    return JobPage(items=items, next=str(items[-1].id) if len(rows) > limit else None, total=total)


@router.get("/labels", summary="List labels")
def list_labels(ctx: Ctx) -> LabelList:
    """All labels that jobs have."""
    with ctx.db.read() as session:
        return LabelList(items=listing.labels(session))


@router.get("/{job_id}", summary="Read a job", responses=responses(404))
def get_job(job_id: JobId, ctx: Ctx) -> Job:
    """A job and how far it is."""
    return _read(ctx, job_id)


@router.patch("/{job_id}", summary="Name a job", responses=responses(404, 422))
def change_job(job_id: JobId, asked: JobChange, ctx: Ctx) -> Job:
    """Give a job another name, or other labels in the place of those that it has."""
    ctx.jobs.change(job_id, asked)
    return _read(ctx, job_id)


@router.delete("/{job_id}", status_code=204, summary="Delete a job", responses=responses(404, 409))
def delete_job(job_id: JobId, ctx: Ctx) -> None:
    """Delete a job that has ended. Nothing measured is lost: its records stay, and so do the best configs."""
    ctx.jobs.delete(job_id)


@router.post("/{job_id}/cancel", summary="Cancel a job", responses=responses(404, 409))
async def cancel_job(job_id: JobId, ctx: Ctx) -> Job:
    """Stop a queued or running job; what it measured stays, and it can be resumed."""
    try:
        state = await run_in_threadpool(ctx.jobs.begin_cancel, job_id)
    except OperationalError as error:
        # What this process runs it can stop, and keep that when it may.
        if not ctx.manager.cancel(job_id):
            raise
        try:
            return await run_in_threadpool(_read, ctx, job_id)
        except OperationalError:
            why = ctx.db.why_away(error)
            raise Problem(503, f"job {job_id} is being cancelled, but cannot be shown: {why}") from None
    if state.final:
        ctx.manager.tell_end(job_id, state)
    else:
        ctx.manager.cancel(job_id)
    return await run_in_threadpool(_read, ctx, job_id)


@router.post("/{job_id}/resume", summary="Resume a job", responses=responses(404, 409, 422))
async def resume_job(
    job_id: JobId,
    ctx: Ctx,
    more: Annotated[
        Budget | None, Body(description="What it may use from now on, in place of what is left.")
    ] = None,
) -> Job:
    """Go on with a job that ended, with what is left of its budget or a new one; no trial is repeated."""
    demand = await run_in_threadpool(ctx.jobs.resume, job_id, more)
    ctx.manager.submit([job_id], demand)
    return await run_in_threadpool(_read, ctx, job_id)


@router.post(":resume", summary="Resume many jobs", responses=responses(422))
async def resume_jobs(wanted: Resumption, ctx: Ctx) -> Resumed:
    """Go on with all jobs that ended so, those that were interrupted unless told otherwise."""
    which = Wanted(wanted.state, wanted.target, wanted.model, wanted.label, wanted.search)
    jobs = await run_in_threadpool(ctx.jobs.resume_all, which)
    ctx.manager.submit(jobs)
    return Resumed(resumed=len(jobs))


@router.get(
    "/{job_id}/tasks", summary="List a job's tasks", response_model=TaskList, responses=responses(404)
)
def list_tasks(job_id: JobId, ctx: Ctx) -> Response:
    """The job's distinct workloads, each with its progress and best-so-far curve."""
    with ctx.db.read() as session:
        tasks = views.show_tasks(session, views.get_row(session, job_id), ctx.manager.live(job_id))
    return checked_once(TaskList(items=tasks))


@router.get(
    "/{job_id}/log",
    summary="Download a job's tuning log",
    response_class=StreamingResponse,
    responses={**LOG_RESPONSE, **responses(404, 503)},
)
def get_job_log(
    job_id: JobId,
    request: Request,
    ctx: Ctx,
    select: Select = "best",
    k: K = 10,
    numerics: Allowed = Numerics.RELAXED,
) -> StreamingResponse:
    """The records of the job's trials, reused ones included.

    With `select=best` the log builds what the job has delivered: where that is the untuned model, it has no
    record.
    """
    with ctx.db.read() as session:
        row = views.get_row(session, job_id)
        untuned = select == "best" and delivers_untuned(row)
        relayouts = told.relayouts(
            session,
            RelayoutRow.target_key == row.target_key,
            RelayoutRow.threads == row.threads,
            RelayoutRow.clock == row.clock,
        )
    records = iter(()) if untuned else repository.log(ctx.db, select, k, job=job_id, numerics=numerics)
    times = relayouts if row.model_hash and not untuned else []
    return log_response(request, ctx.exporting, records, times, f"job-{job_id}")


_EVENT_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events by name, each with JSON data: `state`, `trial`, `best`, `progress`, `end`.",
        "content": {
            "text/event-stream": {
                "example": 'event: trial\ndata: {"task": 3, "number": 7, "cost_s": 0.0009}\nid: 17637\n\n'
            }
        },
    }
}


@router.get(
    "/{job_id}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses={**_EVENT_STREAM, **responses(404)},
)
async def follow_job(
    job_id: JobId,
    request: Request,
    ctx: Ctx,
    last_event_id: Annotated[str | None, Header(description="Replay from behind this event.")] = None,
) -> StreamingResponse:
    """Server-Sent Events of the job from the start of its last run, or from behind `Last-Event-ID`.

    The stream closes after `end`. An idle stream carries a comment every 15 seconds.
    """
    job = await run_in_threadpool(_row, ctx, job_id)
    if job.state not in ENDED:
        return ctx.streams.answer(request, ctx.events.follow(job_id, last_event_id))
    return ctx.streams.answer(request, _replayed(ctx, job, last_event_id))


def _row(ctx: Services, job_id: int) -> JobRow:
    with ctx.db.read() as session:
        return views.get_row(session, job_id)


async def _replayed(ctx: Services, job: JobRow, last_event_id: str | None) -> AsyncIterator[list[Event]]:
    """The events of a job that has ended."""
    kept = await ctx.events.history(job.id, last_event_id)
    if not kept or kept[-1].name != END:
        # Its events are gone, or were seen already: the stream still says how the job ended.
        id_ = (kept[-1].id if kept else last_event_id) or "0"
        kept.append(Event(id_, "state", {"state": job.state, "message": job.message}))
        kept.append(Event(id_, END, {"state": job.state}))
    yield kept


@router.get("/{job_id}/progress", summary="Read a job's curve", responses=responses(404))
def get_progress(job_id: JobId, ctx: Ctx) -> Progress:
    """The estimated time of the whole model over trials; empty until every task has a time.

    A task that had no time by then counts as untuned, by the config of its trial 0.
    """
    with ctx.db.read() as session:
        return progress(session, views.get_row(session, job_id))
