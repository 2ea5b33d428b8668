"""Taking back what a board that lied has recorded, or said of itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, and_, delete, or_, select, update
from sqlalchemy.orm import Session

from server.boards.rows import detail_of
from server.boards.views import get_row
from server.db.documents import UNREADABLE
from server.db.tables import BoardEventRow, BoardRow, JobRow, RecordRow
from server.http.problems import Problem
from server.records import told
from server.records.bests import BATCH, changed
from worker.outcome import ErrorKind

_TIMES = ("cost_s", "verified_s", "in_place_s", "placed_s", "spread", "max_error")


def last_good_check(session: Session, board: str) -> datetime:
    """When the board passed its last health check; when it was enlisted where it never did, or history is
    older than is kept. Raises a 404 problem for an unknown board."""
    row = get_row(session, board)
    checks = select(BoardEventRow).where(BoardEventRow.board == board, BoardEventRow.kind == "check")
    for event in session.execute(checks.order_by(BoardEventRow.id.desc())).scalars():
        if (detail := detail_of(event)) and not detail.get("problem"):
            return event.at
    return row.enlisted


def start(session: Session, board: str, since: datetime | None, good_too: bool) -> datetime:
    """From when on to withdraw: ``since``; where that is None the board's last good check, or with
    ``good_too`` the beginning.

    Raises a 409 problem for a time before that check unless ``good_too`` says that it is meant so: what the
    check vouches for is rarely wrong, and what is withdrawn does not come back. Else as ``last_good_check``.
    """
    checked = last_good_check(session, board)
    if since is None:
        return datetime(1970, 1, 1, tzinfo=UTC) if good_too else checked
    if since < checked and not good_too:
        raise Problem(
            409,
            f"board {board} passed its health check at {checked:%Y-%m-%d %H:%M:%S} UTC, after the time from "
            f"which its records are to be withdrawn, {since:%Y-%m-%d %H:%M:%S}: leave `since` out, or say "
            "`good_too` to withdraw what it measured before that check, too (--good-too on the command line)",
        )
    return since


def withdraw(session: Session, board: str, since: datetime) -> int:
    """Make all that a board measured from ``since`` on errors of kind ``withdrawn``, failures too: a config
    that it called wrong may be right. How many these were.

    Their numbers are gone from all bests, and the next job that needs them measures them again; what they
    said is kept in their message. So do the facts that the board said of itself, and the places that records
    of its kind got beside others, which are the costs of these.
    """
    touched = []
    for row in _each(session, _said_by(board)):
        if _created(row.document) < since:
            continue
        _withdraw(row, board)
        touched.append(row.id)
    of = get_row(session, board)
    count = len(touched)
    alike = (RecordRow.target_key == of.target_key, RecordRow.clock == of.clock)
    for row in _each(session, and_(*alike, RecordRow.placed)):
        row.document = {**row.document, "placed_s": None, "in_place_s": None}
        before_s, now_s = row.ranking_s, row.document.get("verified_s") or row.document.get("cost_s")
        row.rate = row.rate * before_s / now_s if row.rate and before_s and now_s else None
        row.ranking_s, row.placed = now_s, False
        touched.append(row.id)
    changed(session, touched)
    _forget_deliveries(session, board, or_(JobRow.finished.is_(None), JobRow.finished >= since))
    forget_facts(session, of)
    return count


def doubt(session: Session, board: str) -> None:
    """Mark all records of a board that was caught at a lie: its times as disturbed, which rank last and are
    measured again first, and its failures as withdrawn. Nor is anything believed that it said of itself."""
    touched = []
    for row in _each(session, _said_by(board)):
        if row.ranking_s is not None and not row.disturbed:
            row.document, row.disturbed = {**row.document, "disturbed": True}, True
            touched.append(row.id)
        elif row.error is not None:
            _withdraw(row, board)
            touched.append(row.id)
    changed(session, touched)
    _forget_deliveries(session, board)
    forget_facts(session, get_row(session, board))


def forget_facts(session: Session, board: BoardRow) -> None:
    """Delete what the board said of itself, and what some unknown board of its kind did: the next job has it
    measured again."""
    for table in told.COLUMNS:
        of_nobody = (
            (table.board == "") & (table.target_key == board.target_key) & (table.clock == board.clock)
        )
        session.execute(delete(table).where(or_(table.board == board.id, of_nobody)))


def _forget_deliveries(session: Session, board: str, *which: ColumnElement[bool]) -> None:
    """Forget what built models take by the board's word."""
    said_by = (JobRow.delivered_by == board, JobRow.delivery.is_not(None))
    gone = {"delivery": None, "delivered_by": ""}
    session.execute(update(JobRow).where(*said_by, *which).values(gone))


def _said_by(board: str) -> ColumnElement[bool]:
    """What a board of that name measured in this lab, and is not withdrawn yet."""
    stands = RecordRow.error.is_distinct_from(ErrorKind.WITHDRAWN.value)
    return and_(RecordRow.board == board, RecordRow.imported.is_(False), stands)


def _each(session: Session, which: ColumnElement[bool]) -> Iterator[RecordRow]:
    """Records that can be read, to be changed: a few in memory at a time."""
    last: int | None = 0
    while last is not None:
        query = select(RecordRow).where(which, RecordRow.id > last).order_by(RecordRow.id).limit(BATCH)
        rows = session.scalars(query).all()
        yield from (row for row in rows if isinstance(row.document, dict) and UNREADABLE not in row.document)
        session.flush()
        last = rows[-1].id if len(rows) == BATCH else None
        for row in rows:
            session.expunge(row)


def _withdraw(row: RecordRow, board: str) -> None:
    seconds, kind = row.document.get("cost_s"), row.error
    said = f"said {kind}: {row.document.get('message')}" if kind else f"had measured {seconds!r} s"
    row.document = {
        **row.document,
        **dict.fromkeys(_TIMES),
        "repeats_s": [],
        "disturbed": False,
        "counters": {},
        "error": ErrorKind.WITHDRAWN.value,
        "message": f"withdrawn: board {board} {said}",
    }
    row.error, row.ranking_s, row.rate = ErrorKind.WITHDRAWN.value, None, None
    row.disturbed, row.placed = False, False


def _created(document: dict[str, object]) -> datetime:
    """When a record was made; long ago where it does not say."""
    try:
        at = datetime.fromisoformat(str(document.get("created")))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
