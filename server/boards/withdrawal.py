"""Taking back what a board that lied has recorded."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from server.boards.views import get_row
from server.db.tables import BoardEventRow, RecordRow
from server.http.problems import Problem
from server.records.bests import choose_anew
from worker.outcome import ErrorKind

_TIMES = ("cost_s", "verified_s", "in_place_s", "placed_s", "spread", "max_error")


def last_good_check(session: Session, board: str) -> datetime:
    """When the board passed its last health check; when it was enlisted where it never did, or history is
    older than is kept. Raises a 404 problem for an unknown board."""
    row = get_row(session, board)
    checks = select(BoardEventRow).where(BoardEventRow.board == board, BoardEventRow.kind == "check")
    for event in session.execute(checks.order_by(BoardEventRow.id.desc())).scalars():
        if not event.detail.get("problem"):
            return event.at
    return row.enlisted


def start(session: Session, board: str, since: datetime | None, good_too: bool) -> datetime:
    """From when on to withdraw: ``since``, or the board's last good check where that is None.

    Raises a 409 problem for a time before that check unless ``good_too`` says that it is meant so: what the
    check vouches for is rarely wrong, and what is withdrawn does not come back. Else as ``last_good_check``.
    """
    checked = last_good_check(session, board)
    if since is None:
        return checked
    if since < checked and not good_too:
        raise Problem(
            409,
            f"board {board} passed its health check at {checked:%Y-%m-%d %H:%M:%S} UTC, after the time from "
            f"which its records are to be withdrawn, {since:%Y-%m-%d %H:%M:%S}: leave `since` out, or say "
            "`good_too` to withdraw what it measured before that check, too (--good-too on the command line)",
        )
    return since


def withdraw(session: Session, board: str, since: datetime) -> int:
    """Make all that a board measured from ``since`` on errors of kind ``withdrawn``; how many these were.

    Their numbers are gone from all bests, and the next job that needs them measures them again; what they
    said is kept in their message.
    """
    said_by = RecordRow.document["board"].as_string() == board
    ran = RecordRow.ranking_s.is_not(None)
    touched = []
    for row in session.execute(select(RecordRow).where(said_by, ran)).scalars():
        if _created(row.document) < since:
            continue
        seconds = row.document.get("cost_s")
        message = f"withdrawn: board {board} had measured {seconds!r} s"
        gone = dict.fromkeys(_TIMES)
        row.document = {
            **row.document,
            **gone,
            "repeats_s": [],
            "counters": {},
            "error": ErrorKind.WITHDRAWN.value,
            "message": message,
        }
        row.error, row.ranking_s, row.disturbed = ErrorKind.WITHDRAWN.value, None, False
        touched.append(row.id)
    session.flush()
    choose_anew(session, touched)
    return len(touched)


def _created(document: dict[str, object]) -> datetime:
    """When a record was made; long ago where it does not say."""
    try:
        at = datetime.fromisoformat(str(document.get("created")))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
