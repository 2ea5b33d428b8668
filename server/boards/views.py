"""Reading boards and their history as the API shows them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, and_, case, func, select
from sqlalchemy.orm import Session, aliased

from server.boards import leases
from server.boards.leases import LeaseState
from server.boards.rows import detail_of, last_check, standing_of
from server.boards.schemas import Board, BoardEvent, BoardLease
from server.db.documents import UNREADABLE, fitting, readable
from server.db.stored import target_of
from server.db.tables import BoardEventRow, BoardRow, LeaseRow, TargetRow
from server.http.problems import Problem
from worker.fleet.states import Activity
from worker.fleet.status import BoardStatus
from worker.measure.plausible import BOUNDS, reading

WINDOW_S = 300.0
"""How far back the present utilisation looks."""


def get_row(session: Session, board: str) -> BoardRow:
    """The board's row, or a 404 that names the boards there are."""
    row = session.get(BoardRow, board)
    if row is None:
        known = ", ".join(session.execute(select(BoardRow.id).order_by(BoardRow.id)).scalars())
        raise Problem(404, f"there is no board {board!r}; there are: {known or 'none'}")
    return row


def show(session: Session, statuses: Iterable[BoardStatus], only: str | None = None) -> list[Board]:
    """All boards, or one; what they do now comes from ``statuses``."""
    query = select(BoardRow, TargetRow).outerjoin(TargetRow, TargetRow.key == BoardRow.target_key)
    if only is not None:
        query = query.where(BoardRow.id == only)
    now_s = time.time()
    held = {row.board: row for row in session.execute(leases.ACTIVE) if not leases.lost(row, now_s)}
    used = _utilisation(session, now_s)
    doing = {status.id: status.activity for status in statuses}
    return [
        Board(
            id=row.id,
            target=target.name if target else UNREADABLE,
            instruction_sets=_instruction_sets(row, target),
            clock=row.clock,
            threads=row.threads,
            tags=fitting(row.tags, list[str], [], f"the tags of board {row.id}"),
            kind=row.kind,
            address=row.place,
            activity=doing.get(row.id, Activity.OFFLINE),
            health=(standing := standing_of(row)).health,
            reason=standing.reason,
            draining=standing.draining,
            lease=_lease(held.get(row.id)),
            utilisation=used.get(row.id, 0.0),
            utilisation_total=min(1.0, row.timed_s / max(1e-9, now_s - row.enlisted.timestamp())),
            trials=row.trials,
            leases=row.leases,
            faults=row.faults,
            busy_s=row.busy_s,
            timed_s=row.timed_s,
            **reference(row),
            checked=row.checked,
            enlisted=row.enlisted,
            last_seen=row.last_seen,
        )
        for row, target in session.execute(query.order_by(BoardRow.id))
    ]


def _instruction_sets(row: BoardRow, target: TargetRow | None) -> list[str]:
    if target is None:
        return []
    return readable(lambda: list(target_of(target).instruction_sets), [], f"board {row.id}")


def history(session: Session, board: str, after: int | None, limit: int) -> Sequence[BoardEvent]:
    """What happened to a board, the newest first, before the entry ``after``."""
    query = select(BoardEventRow).where(BoardEventRow.board == board)
    if after is not None:
        query = query.where(BoardEventRow.id < after)
    found = session.execute(query.order_by(BoardEventRow.id.desc()).limit(limit)).scalars()
    return [BoardEvent(id=row.id, at=row.at, kind=row.kind, detail=detail_of(row)) for row in found]


def _lease(row: leases.AnyRow | None) -> BoardLease | None:
    if row is None:
        return None
    expires = datetime.fromtimestamp(row.expires, UTC)
    return BoardLease(holder=row.holder, job=row.job, purpose=row.purpose, token=row.token, expires=expires)


def reference(row: BoardRow) -> dict[str, float | None]:
    """What the last health check found; its time is compared only with that of the same code and clock."""
    check = last_check(row)
    last_s = check.get("seconds")
    best_s = row.reference_s if check.get("artifact") == row.reference_artifact else None
    return {
        "reference_s": last_s,
        "best_reference_s": row.reference_s,
        "drift": last_s / best_s if last_s and best_s else None,
        **{name: reading(check.get(name), *bounds) for name, bounds in BOUNDS.items()},
    }


def _utilisation(session: Session, now_s: float) -> dict[str, float]:
    """Of each board that was used, the share of the window that it was inside the timer.

    What a lease was used for is known when it has ended, so the window ends where the present one begins.
    Of a lease that began before the window, its share counts.
    """
    active = aliased(LeaseRow)
    end = func.coalesce(active.started, now_s)
    begin = end - WINDOW_S
    inside = case((LeaseRow.started > begin, 1.0), else_=(LeaseRow.ended - begin) / _length())
    query = (
        select(BoardRow.id, BoardRow.enlisted, active.started, func.sum(LeaseRow.timed_s * inside))
        .outerjoin(active, and_(active.board == BoardRow.id, active.state == LeaseState.ACTIVE.value))
        .join(LeaseRow, and_(LeaseRow.board == BoardRow.id, LeaseRow.ended > begin))
        .where(LeaseRow.state == LeaseState.RELEASED.value)
        .group_by(BoardRow.id, BoardRow.enlisted, active.started)
    )
    shares = {}
    for board, enlisted, started, timed_s in session.execute(query):
        known_s = (now_s if started is None else started) - enlisted.timestamp()
        shares[board] = min(1.0, timed_s / max(1e-9, min(WINDOW_S, known_s)))
    return shares


def _length() -> ColumnElement[float]:
    """Seconds that a lease lasted; never 0, to divide by."""
    lasted = LeaseRow.ended - LeaseRow.started
    return case((lasted > 0, lasted), else_=1.0)
