"""What a board did over time, thinned here so that a browser need not."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from server.boards import views
from server.boards.leases import LeaseState
from server.boards.routes import BoardId
from server.db.tables import BoardEventRow, BoardRow, LeaseRow
from server.jobs.views import thin
from server.problems import responses
from server.services import Ctx

CHECKS = 200
DAY_S = 24 * 3600
router = APIRouter(prefix="/boards", tags=["boards"])
Span = tuple[float, float, float, int]
"""A lease: its start and end in seconds since the epoch, seconds inside the timer, candidates measured."""


class Slot(BaseModel):
    """A stretch of time."""

    at: datetime = Field(description="When it began.")
    leased: float = Field(description="Share of it under a lease.", examples=[0.91])
    timing: float = Field(description="Share of it inside the timer.", examples=[0.42])
    trials: float = Field(description="Candidates measured; of a lease over several slots its share.")


class CheckPoint(BaseModel):
    """A health check that ran the reference kernel."""

    at: datetime = Field(description="When it was made.")
    seconds: float = Field(description="Time of the reference kernel.")
    drift: float | None = Field(description="Over the best of the present code; null for other code.")


class BoardActivity(BaseModel):
    """A board's use, and how steady it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "slots": [{"at": "2026-11-21T14:03:00Z", "leased": 0.91, "timing": 0.42, "trials": 7.5}],
                "checks": [{"at": "2026-11-21T14:03:11Z", "seconds": 0.00099, "drift": 1.004}],
            }
        }
    )

    slots: list[Slot] = Field(description="From the oldest on, without gaps.")
    checks: list[CheckPoint] = Field(description=f"Of 30 days, evenly thinned to {CHECKS}.")


@router.get("/{board_id}/activity", summary="Read a board's activity", responses=responses(404))
def get_board_activity(
    board_id: BoardId,
    ctx: Ctx,
    seconds: Annotated[int, Query(ge=60, le=DAY_S, description="How far back the slots go.")] = 3600,
    slots: Annotated[int, Query(ge=1, le=240, description="How many there are.")] = 60,
) -> BoardActivity:
    """Its use in equal slots up to now, and the times of the reference kernel.

    What a lease was used for is known when it has ended, and then spread evenly over its time.
    """
    end = time.time()
    with ctx.db.read() as session:
        board = views.get_row(session, board_id)
        spans = _leases(session, board_id, end - seconds, end)
        checks = _checks(session, board)
    return BoardActivity(slots=spread(spans, end - seconds, seconds / slots, slots), checks=checks)


def spread(spans: Iterable[Span], begin: float, slot_s: float, count: int) -> list[Slot]:
    """``count`` slots of ``slot_s`` seconds from ``begin`` on, over which the spans are spread."""
    sums = [[0.0, 0.0, 0.0] for _ in range(count)]
    for start, end, timed_s, trials in spans:
        length = max(end - start, 1e-9)
        first, last = int(max(0.0, (start - begin) // slot_s)), int((end - begin) // slot_s)
        for at in range(first, min(last, count - 1) + 1):
            inside = min(end, begin + (at + 1) * slot_s) - max(start, begin + at * slot_s)
            for place, value in enumerate((inside, timed_s * inside / length, trials * inside / length)):
                sums[at][place] += value
    return [
        Slot(
            at=datetime.fromtimestamp(begin + at * slot_s, UTC),
            leased=min(1.0, leased / slot_s),
            timing=min(1.0, timing / slot_s),
            trials=trials,
        )
        for at, (leased, timing, trials) in enumerate(sums)
    ]


def _leases(session: Session, board: str, begin: float, now_s: float) -> list[Span]:
    active = LeaseRow.state == LeaseState.ACTIVE.value
    query = select(LeaseRow).where(LeaseRow.board == board, or_(LeaseRow.ended > begin, active))
    return [
        (lease.started, lease.ended or min(now_s, lease.expires), lease.timed_s, lease.trials)
        for lease in session.execute(query).scalars()
    ]


def _checks(session: Session, board: BoardRow) -> list[CheckPoint]:
    query = select(BoardEventRow.id).where(BoardEventRow.board == board.id, BoardEventRow.kind == "check")
    ids = thin(session.execute(query.order_by(BoardEventRow.id)).scalars().all(), CHECKS)
    rows = session.execute(select(BoardEventRow).where(BoardEventRow.id.in_(ids)).order_by(BoardEventRow.id))
    points = []
    for row in rows.scalars():
        seconds, known = row.detail.get("seconds"), row.detail.get("artifact") == board.reference_artifact
        if seconds:
            drift = seconds / board.reference_s if known and board.reference_s else None
            points.append(CheckPoint(at=row.at, seconds=seconds, drift=drift))
    return points
