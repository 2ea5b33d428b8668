"""Routes of the boards."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query, Request
from fastapi.responses import StreamingResponse

from server.boards import days, views, withdrawal
from server.boards.activity import activity
from server.boards.report import fleet_report
from server.boards.schemas import (
    Board,
    BoardActivity,
    BoardDays,
    BoardHistory,
    BoardList,
    Change,
    FleetReport,
    Parking,
    Withdrawal,
    Withdrawn,
)
from server.events.base import BOARDS
from server.http.json_text import JsonRoute
from server.http.pages import AfterId, Limit
from server.http.problems import responses
from server.services import Ctx

router = APIRouter(prefix="/boards", tags=["boards"], route_class=JsonRoute)
BoardId = Annotated[str, Path(description="The board's name.", max_length=100, examples=["pi-3"])]
Why = Annotated[Change | None, Body()]

_EVENT_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events called `board`: a board does something else, or its health has changed.",
        "content": {
            "text/event-stream": {
                "example": 'event: board\ndata: {"board": "pi-3", "activity": "idle", "health": "good", '
                '"reason": "", "draining": false, "job": null}\nid: 17637\n\n'
            }
        },
    }
}


@router.get("", summary="List boards")
def list_boards(ctx: Ctx) -> BoardList:
    """All boards as they are now, those that are away too."""
    return BoardList(items=ctx.boards.all())


@router.get("/events", summary="Follow the boards", response_class=StreamingResponse, responses=_EVENT_STREAM)
async def follow_boards(
    request: Request,
    ctx: Ctx,
    last_event_id: Annotated[str | None, Header(description="Replay from behind this event.")] = None,
) -> StreamingResponse:
    """Server-Sent Events of all boards: the last ones, or those behind `Last-Event-ID`, then what comes.

    An idle stream carries a comment every 15 seconds.
    """
    return ctx.streams.answer(request, ctx.events.follow(BOARDS, last_event_id))


@router.get("/report", summary="Report on the fleet")
def get_report(
    ctx: Ctx,
    days_: Annotated[
        int, Query(alias="days", ge=1, le=366, description="How many days, today among them.")
    ] = 7,
) -> FleetReport:
    """How available and how used the boards were, and which share of the trials was lost to the lab."""
    with ctx.db.read() as session:
        return fleet_report(session, days_, time.time())


@router.get("/{board_id}", summary="Read a board", responses=responses(404))
def get_board(board_id: BoardId, ctx: Ctx) -> Board:
    """One board as it is now."""
    return ctx.boards.get(board_id)


@router.get("/{board_id}/history", summary="Read a board's history", responses=responses(404))
def get_board_history(board_id: BoardId, ctx: Ctx, limit: Limit = 50, after: AfterId = None) -> BoardHistory:
    """Health checks, faults, lost leases and what operators did, the newest first; kept for 30 days."""
    with ctx.db.read() as session:
        views.get_row(session, board_id)
        found = views.history(session, board_id, after, limit + 1)
    items = list(found[:limit])
    return BoardHistory(items=items, next=str(items[-1].id) if len(found) > limit else None)


@router.post("/{board_id}/drain", summary="Drain a board", responses=responses(404, 409))
async def drain_board(board_id: BoardId, ctx: Ctx, change: Why = None) -> Board:
    """Let the present lease end, then take the board out of service for maintenance."""
    return await ctx.boards.drain(board_id, _reason(change, "drained by an operator"))


@router.post("/{board_id}/park", summary="Park a board", responses=responses(404, 409))
async def park_board(board_id: BoardId, ctx: Ctx, change: Parking) -> Board:
    """Take the board out of service at once; what runs there is thrown away and measured elsewhere."""
    return await ctx.boards.park(board_id, change.reason)


@router.post("/{board_id}/return", summary="Return a board", responses=responses(404, 409))
async def return_board(board_id: BoardId, ctx: Ctx, change: Why = None) -> Board:
    """Bring the board back into service; it gets trials once it has passed its health check."""
    return await ctx.boards.put_back(board_id, _reason(change, "returned to service"))


@router.post("/{board_id}/retire", summary="Retire a board", responses=responses(404, 409))
async def retire_board(board_id: BoardId, ctx: Ctx, change: Why = None) -> Board:
    """Take the board out of service for good; its history stays, and no job waits for it any more."""
    return await ctx.boards.retire(board_id, _reason(change, "retired by an operator"))


@router.post("/{board_id}/withdraw", summary="Withdraw a board's records", responses=responses(404, 409))
def withdraw_records(
    board_id: BoardId, ctx: Ctx, which: Annotated[Withdrawal | None, Body()] = None
) -> Withdrawn:
    """Take back what a board has measured since its last good health check, or since a time after it.

    Its records, failures too, become errors of kind `withdrawn`: no best config, log or build uses them, and
    the next job measures them again. So are the peak, the bandwidth and the times of layout changes that it
    said, and what built models take by its word. A time before that check needs `good_too`, which without a
    time takes back all that it measured.
    """
    which = which or Withdrawal()
    with ctx.db.write() as session:
        since = withdrawal.start(session, board_id, which.since, which.good_too)
        return Withdrawn(records=withdrawal.withdraw(session, board_id, since), since=since)


def _reason(change: Change | None, otherwise: str) -> str:
    return (change and change.reason) or otherwise


@router.get("/{board_id}/activity", summary="Read a board's activity", responses=responses(404))
def get_board_activity(
    board_id: BoardId,
    ctx: Ctx,
    seconds: Annotated[int, Query(ge=60, le=24 * 3600, description="How far back the slots go.")] = 3600,
    slots: Annotated[int, Query(ge=1, le=240, description="How many there are.")] = 60,
) -> BoardActivity:
    """Its use in equal slots up to now, and the times of the reference kernel.

    What a lease was used for is known when it has ended, and then spread evenly over its time.
    """
    with ctx.db.read() as session:
        return activity(session, board_id, time.time(), seconds, slots)


@router.get("/{board_id}/days", summary="Read a board's use by day", responses=responses(404, 422))
def get_board_days(
    board_id: BoardId,
    ctx: Ctx,
    count: Annotated[int, Query(ge=1, le=366, description="How many days, today among them.")] = 30,
) -> BoardDays:
    """What a board was used for each day (UTC), kept for a year; a lease counts on the day that it ended."""
    with ctx.db.read() as session:
        return days.by_day(session, board_id, count, time.time())
