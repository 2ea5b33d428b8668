"""What a board did over time, thinned here so that a browser need not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from server.boards import views
from server.boards.leases import LeaseState
from server.boards.rows import detail_of
from server.boards.schemas import CHECKS, BoardActivity, CheckPoint, Slot
from server.db.tables import BoardEventRow, BoardRow, LeaseRow
from server.http.pages import thin

Span = tuple[float, float, float, int]
"""A lease: its start and end in seconds since the epoch, seconds inside the timer, candidates measured."""


def activity(session: Session, board_id: str, end: float, seconds: float, slots: int) -> BoardActivity:
    """What it did in ``slots`` equal parts of the ``seconds`` up to ``end``, and its health checks."""
    board = views.get_row(session, board_id)
    begin = end - seconds
    spans = _leases(session, board_id, begin, end)
    return BoardActivity(slots=spread(spans, begin, seconds / slots, slots), checks=_checks(session, board))


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
        detail = detail_of(row)
        seconds, known = detail.get("seconds"), detail.get("artifact") == board.reference_artifact
        if seconds:
            drift = seconds / board.reference_s if known and board.reference_s else None
            points.append(CheckPoint(at=row.at, seconds=seconds, drift=drift))
    return points
