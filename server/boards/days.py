"""What boards were used for by day: of old leases only the sums are kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from server.boards import views
from server.boards.leases import LeaseState
from server.boards.schemas import BoardDays, Day
from server.db.insert import insert
from server.db.tables import BoardDayRow, BoardEventRow, LeaseRow

DAY_S = 24 * 3600.0
_SUMS = ("leases", "leased_s", "timed_s", "trials")
_FAULTS = ("fault", "bad_check")


def keep_use(session: Session, board: str, *gone: ColumnElement[bool]) -> None:
    """Add what leases that are about to be forgotten were used for to the days that they ended on."""
    for day, sums in _by_day(session, board, *gone):
        statement = insert(session, BoardDayRow).values(board=board, day=day, **sums)
        added = {name: getattr(BoardDayRow, name) + statement.excluded[name] for name in _SUMS}
        session.execute(statement.on_conflict_do_update(index_elements=["board", "day"], set_=added))


def by_day(session: Session, board: str, days: int, now_s: float) -> BoardDays:
    """The last ``days`` days of a board, today among them; 404 when there is none of that name."""
    failed = faults(session, board, int(now_s // DAY_S) - days + 1)
    items = [
        Day(
            at=datetime.fromtimestamp(day * DAY_S, UTC),
            leased=min(1.0, of["leased_s"] / max(1.0, there_s)),
            timing=min(1.0, of["timed_s"] / max(1.0, there_s)),
            trials=int(of["trials"]),
            faults=failed.get(day, 0),
        )
        for day, of, there_s in used(session, board, days, now_s)
    ]
    return BoardDays(items=items)


def used(
    session: Session, board: str, days: int, now_s: float
) -> Iterator[tuple[int, dict[str, float], float]]:
    """Of each of the last ``days`` days: its number, the sums of the leases that ended on it, and how many
    seconds of it are over and had the board. 404 when there is none of that name."""
    enlisted = views.get_row(session, board).enlisted.timestamp()
    today = int(now_s // DAY_S)
    first = today - days + 1
    found = {day: dict.fromkeys(_SUMS, 0.0) for day in range(first, today + 1)}
    kept = select(BoardDayRow).where(BoardDayRow.board == board, BoardDayRow.day >= first)
    sums = [
        (row.day, {name: getattr(row, name) for name in _SUMS}) for row in session.execute(kept).scalars()
    ]
    for day, more in (*sums, *_by_day(session, board, LeaseRow.ended >= first * DAY_S)):
        for name, value in more.items() if day in found else ():
            found[day][name] += value
    for day, of in found.items():
        yield day, of, max(0.0, min(now_s, (day + 1) * DAY_S) - max(enlisted, day * DAY_S))


def _by_day(
    session: Session, board: str, *where: ColumnElement[bool]
) -> Iterator[tuple[int, dict[str, float]]]:
    """By day (since the epoch, UTC), the sums of the leases of a board that ended well on it.

    One query a day: there are few days, and the two databases round in different ways.
    """
    mine = (LeaseRow.board == board, LeaseRow.state == LeaseState.RELEASED.value, *where)
    ends = select(func.min(LeaseRow.ended), func.max(LeaseRow.ended))
    first, last = session.execute(ends.where(*mine)).one()
    if first is None or last is None:
        return
    length = func.sum(LeaseRow.ended - LeaseRow.started)
    sums = select(func.count(), length, func.sum(LeaseRow.timed_s), func.sum(LeaseRow.trials))
    for day in range(int(first // DAY_S), int(last // DAY_S) + 1):
        that_day = LeaseRow.ended >= day * DAY_S, LeaseRow.ended < (day + 1) * DAY_S
        row = session.execute(sums.where(*mine, *that_day)).one()
        if row[0]:
            yield day, {name: value or 0.0 for name, value in zip(_SUMS, row, strict=True)}


def faults(session: Session, board: str, first: int) -> dict[int, int]:
    """Faults and failed health checks of each day from ``first`` on, as far back as the history goes."""
    since = datetime.fromtimestamp(0, UTC) + timedelta(days=first)
    query = select(BoardEventRow.at).where(
        BoardEventRow.board == board, BoardEventRow.kind.in_(_FAULTS), BoardEventRow.at >= since
    )
    found: dict[int, int] = {}
    for at in session.execute(query).scalars():
        day = int(at.timestamp() // DAY_S)
        found[day] = found.get(day, 0) + 1
    return found
