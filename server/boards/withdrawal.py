"""Taking back what a board that lied has recorded, or said of itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, and_, delete, or_, select, tuple_, update
from sqlalchemy.orm import Session

from server.boards.leases import disbelieve
from server.boards.rows import detail_of
from server.boards.views import get_row
from server.db.documents import UNREADABLE
from server.db.tables import BoardEventRow, JobRow, RecordRow
from server.http.problems import Problem
from server.records import told
from server.records.bests import BATCH, changed
from worker.fleet.book import WITHDRAW
from worker.outcome import ErrorKind

Kind = tuple[str, str]
"""Target and clock of a board."""
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
    said is kept in their message. What jobs have in memory of this board is not stored any more.
    """
    kinds = _begin(session, board)
    _forget_deliveries(session, board, kinds, or_(JobRow.finished.is_(None), JobRow.finished >= since))
    touched = []
    for row in _each(session, _said_by(board)):
        if _created(row.document) < since:
            continue
        _withdraw(row, board)
        touched.append(row.id)
    count = len(touched)
    _end(session, board, kinds, touched)
    detail = {
        "reason": f"{count} record{'s' * (count != 1)} from {since:%Y-%m-%d %H:%M:%S} UTC on taken back"
    }
    session.add(BoardEventRow(board=board, kind=WITHDRAW, detail=detail))
    return count


def doubt(session: Session, board: str) -> None:
    """Mark all records of a board that was caught at a lie: its times as disturbed, which rank last and are
    measured again first, and its failures as withdrawn. Nor is anything else believed that it said."""
    kinds = _begin(session, board)
    _forget_deliveries(session, board, kinds)
    touched = []
    for row in _each(session, and_(_said_by(board), RecordRow.disturbed.is_(False))):
        if row.ranking_s is not None:
            row.document, row.disturbed = {**row.document, "disturbed": True}, True
            touched.append(row.id)
        elif row.error is not None:
            _withdraw(row, board)
            touched.append(row.id)
    _end(session, board, kinds, touched)


def _begin(session: Session, board: str) -> set[Kind]:
    """Have nothing stored meanwhile that the board said before; the kinds of board that it is or was.

    Raises a 404 problem for an unknown board.
    """
    row = get_row(session, board)
    session.flush()
    session.refresh(row, with_for_update={"key_share": True})
    disbelieve(session, row)
    mine = (RecordRow.board == board, RecordRow.imported.is_(False))
    measured = select(RecordRow.target_key, RecordRow.clock).where(*mine).distinct()
    return {(row.target_key, row.clock), *((target, clock) for target, clock in session.execute(measured))}


def _end(session: Session, board: str, kinds: set[Kind], touched: list[int]) -> None:
    """Take the places from records of these kinds, which are costs of others, and forget what the board said
    of itself; then choose anew for the tasks of all that was touched."""
    for target, clock in sorted(kinds):
        alike = (RecordRow.target_key == target, RecordRow.clock == clock, RecordRow.imported.is_(False))
        for row in _each(session, and_(*alike, RecordRow.placed)):
            row.document = {**row.document, "placed_s": None, "in_place_s": None}
            before_s, now_s = row.ranking_s, row.document.get("verified_s") or row.document.get("cost_s")
            row.rate = row.rate * before_s / now_s if row.rate and before_s and now_s else None
            row.ranking_s, row.placed = now_s, False
            touched.append(row.id)
    changed(session, touched)
    forget_facts(session, board, kinds)


def forget_facts(session: Session, board: str, kinds: set[Kind]) -> None:
    """Delete what the board said of itself, and what some unknown board of its kinds did: the next job has it
    measured again."""
    for table in told.COLUMNS:
        of_nobody = (table.board == "") & tuple_(table.target_key, table.clock).in_(sorted(kinds))
        session.execute(delete(table).where(or_(table.board == board, of_nobody)))


def _forget_deliveries(session: Session, board: str, kinds: set[Kind], *which: ColumnElement[bool]) -> None:
    """Forget what built models take by the board's word, or by that of some unknown board of its kinds.

    Jobs are locked before their tasks, as by all who lock both.
    """
    of_nobody = (JobRow.delivered_by == "") & tuple_(JobRow.target_key, JobRow.clock).in_(sorted(kinds))
    said_by = (JobRow.delivery.is_not(None), or_(JobRow.delivered_by == board, of_nobody))
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
