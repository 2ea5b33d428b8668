"""Statements about leases, made once: hundreds of leases a second begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, cast

from sqlalchemy import Row, Table, and_, bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from server import ownership
from server.db.tables import BoardRow, LeaseRow


class LeaseState(StrEnum):
    """How a lease stands; only ``released`` ones have ended well."""

    ACTIVE = "active"
    RELEASED = "released"
    EXPIRED = "expired"
    REVOKED = "revoked"


AnyRow = Row[Any]
"""A row of the whole table."""
_leases = cast(Table, LeaseRow.__table__)
_boards = cast(Table, BoardRow.__table__)
_one = _leases.c.token == bindparam("of_token")
_is_active = _leases.c.state == LeaseState.ACTIVE.value
_holds = and_(_is_active, _leases.c.expires > bindparam("now_s"))

ACTIVE = select(_leases).where(_is_active)
ACTIVE_OF_BOARD = ACTIVE.where(_leases.c.board == bindparam("of_board")).with_for_update()
# A board's row is locked before its lease's, by everyone, so that nobody waits in a circle.
BOARD = (
    select(_boards.c.health, _boards.c.draining)
    .where(_boards.c.id == bindparam("id"))
    .with_for_update(key_share=True)
)
BEGIN = insert(_leases).returning(_leases.c.token)
RENEW = (
    update(_leases)
    .where(_leases.c.token.in_(bindparam("tokens", expanding=True)), _holds)
    .values(expires=bindparam("until"))
    .returning(_leases.c.token)
)
RELEASE = (
    update(_leases)
    .where(_one, _holds)
    .values(
        state=LeaseState.RELEASED.value,
        ended=bindparam("now_s"),
        trials=bindparam("used_trials"),
        busy_s=bindparam("used_busy_s"),
        timed_s=bindparam("used_timed_s"),
    )
    .returning(_leases.c.board)
)
ADD_USAGE = (
    update(_boards)
    .where(_boards.c.id == bindparam("of_board"))
    .values(
        trials=_boards.c.trials + bindparam("used_trials"),
        busy_s=_boards.c.busy_s + bindparam("used_busy_s"),
        timed_s=_boards.c.timed_s + bindparam("used_timed_s"),
        leases=_boards.c.leases + 1,
    )
)
END = (
    update(_leases)
    .where(_one, _is_active)
    .values(state=bindparam("to_state"), ended=bindparam("now_s"))
    .returning(_leases)
)
_RECORDABLE = (
    select(_leases, _boards.c.disbelieved)
    .join(_boards, _boards.c.id == _leases.c.board)
    .where(_leases.c.token.in_(bindparam("tokens", expanding=True)))
    .order_by(_leases.c.token)
    .with_for_update(read=True, of=_leases)
)
_TAKING_BACK = 7_471
"""Names the lock of whoever takes back what a board said; those who store what boards say share it."""


def lost(lease: AnyRow, now_s: float) -> bool:
    """Whether an active lease is one no more: it was not renewed in time, or its holder is dead."""
    return lease.expires <= now_s or ownership.gone(lease.holder)


def recordable(
    session: Session, measured: Iterable[tuple[int, float]], now_s: float
) -> set[tuple[int, float]]:
    """Those of (fencing token, time of measuring) whose results may be stored.

    Their leases have ended well or held at that time (0 stands for now): while the database is away none can
    be renewed, and yet nobody else had the board. Token 0 stands for results that no lease was needed for.
    None is one whose board's word was taken back since it began. Until the transaction ends, nobody can take
    the others away, or take back what a board said: call this first, as who does so waits for it.
    """
    _lock(session, func.pg_advisory_xact_lock_shared)
    asked = set(measured)
    tokens = sorted({token for token, _ in asked} - {0})
    found = session.execute(_RECORDABLE, {"tokens": tokens}) if tokens else ()
    leases = {lease.token: lease for lease in found}
    return {(token, at) for token, at in asked if not token or _held(leases.get(token), at or now_s)}


def disbelieve(session: Session, board: BoardRow) -> None:
    """Have nothing stored any more that a board, its row locked, has said so far.

    Waits for those who are storing it, and they for the end of this transaction.
    """
    _lock(session, func.pg_advisory_xact_lock)
    board.disbelieved = max(board.disbelieved, session.scalar(select(func.max(LeaseRow.token))) or 0)


def _lock(session: Session, how: Callable[[int], Any]) -> None:
    """SQLite has one writer at a time anyway."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(how(_TAKING_BACK)))


def _held(lease: AnyRow | None, at: float) -> bool:
    if lease is None or lease.state == LeaseState.REVOKED or lease.token <= lease.disbelieved:
        return False
    if lease.state == LeaseState.RELEASED:
        return True
    return bool(at < lease.expires and (lease.ended is None or at < lease.ended))
