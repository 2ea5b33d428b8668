"""The fleet's book (``worker/fleet/book.py``) in SQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from server.boards import leases as sql
from server.boards import rows
from server.boards.withdrawal import doubt
from server.db.database import Database
from server.db.insert import insert
from server.db.tables import BoardEventRow, BoardRow
from server.records.repository import add_targets
from worker.fleet.book import DISAGREES, LIED, RETURNED, Check, Entry, Lease, Listing, Purpose, Usage, allows
from worker.fleet.states import Health, Standing
from worker.fleet.times import USUAL

_LOCK = {"key_share": True}
_Found = TypeVar("_Found")


class SqlBook:
    """Implements ``Book``; raises KeyError for a board that was never enlisted.

    A lease that was not renewed in time is lost at that moment, whether or not another has taken the board.
    ``clock`` gives seconds since the epoch: coordinators that share a database need clocks that agree to
    within a few seconds.
    """

    def __init__(
        self, db: Database, *, lease_s: float = USUAL.lease_s, clock: Callable[[], float] = time.time
    ) -> None:
        self._db, self._lease_s, self._clock = db, lease_s, clock

    def enlist(self, boards: Sequence[Listing]) -> None:
        """See ``Book.enlist``. A board with another target or clock than before is to be checked anew."""
        with self._db.write() as session:
            add_targets(session, (board.target for board in boards))
            query = select(BoardRow).where(BoardRow.id.in_([board.id for board in boards]))
            known = {row.id: row for row in session.execute(query.with_for_update(key_share=True)).scalars()}
            for board in boards:
                row = known.get(board.id)
                if row is None:
                    self._add(session, board)
                    continue
                if (row.target_key, row.clock) != (board.target.key, board.clock):
                    row.reference_s, row.reference_artifact = None, ""
                    if row.health == Health.GOOD:
                        row.health, row.reason = Health.UNKNOWN.value, "its target or clock has changed"
                row.target_key, row.clock = board.target.key, board.clock
                row.threads, row.tags = board.threads, list(board.tags)
                row.kind, row.place = board.kind, board.where
                if board.alive:
                    row.last_seen = self._now()

    def entries(self) -> dict[str, Entry]:
        """See ``Book.entries``; a lease that has been lost is none."""
        with self._db.read() as session:
            boards = session.execute(select(BoardRow)).scalars().all()
            active = {lease.board: lease for lease in session.execute(sql.ACTIVE)}
        now_s = self._clock()
        held = {board: lease for board, lease in active.items() if not sql.lost(lease, now_s)}
        kin = rows.kin(boards)
        return {
            board.id: rows.entry_of(board, held.get(board.id), kin[board.target_key, board.clock])
            for board in boards
        }

    def acquire(self, board: str, holder: str, purpose: Purpose, job: int | None) -> Lease | None:
        """See ``Book.acquire``."""
        with self._db.write() as session:
            # Its row is locked, so whoever else wants the board waits here.
            found = _known(session.execute(sql.BOARD, {"id": board}).first(), board)
            now_s = self._clock()
            held = session.execute(sql.ACTIVE_OF_BOARD, {"of_board": board}).first()
            if held is not None:
                if not sql.lost(held, now_s):
                    return None
                self._end(
                    session, held.token, sql.LeaseState.EXPIRED, "its holder gave no sign of life", now_s
                )
            standing = Standing(rows.health_of(found.health) or Health.MAINTENANCE, draining=found.draining)
            if not allows(standing, purpose):
                return None
            row = {
                "board": board,
                "holder": holder,
                "purpose": purpose.value,
                "job": job,
                "state": sql.LeaseState.ACTIVE.value,
                "started": now_s,
                "expires": now_s + self._lease_s,
            }
            token = session.execute(sql.BEGIN, row).scalar_one()
        return Lease(token, board, holder, purpose, job)

    def renew(self, leases: Sequence[Lease]) -> set[int]:
        """See ``Book.renew``."""
        if not leases:
            return set()
        now_s = self._clock()
        values = {
            "tokens": [lease.token for lease in leases],
            "now_s": now_s,
            "until": now_s + self._lease_s,
        }
        with self._db.write() as session:
            return set(session.execute(sql.RENEW, values).scalars())

    def release(self, lease: Lease, usage: Usage) -> bool:
        """See ``Book.release``."""
        used = {f"used_{name}": value for name, value in asdict(usage).items()}
        now_s = self._clock()
        values = {"of_token": lease.token, "now_s": now_s, **used}
        with self._db.write() as session:
            session.execute(sql.BOARD, {"id": lease.board})
            if session.execute(sql.RELEASE, values).first() is None:
                self._end(session, lease.token, sql.LeaseState.EXPIRED, "it was not renewed in time", now_s)
                return False
            session.execute(sql.ADD_USAGE, {"of_board": lease.board, **used})
        return True

    def revoke(self, board: str, reason: str) -> None:
        """See ``Book.revoke``."""
        with self._db.write() as session:
            _known(session.execute(sql.BOARD, {"id": board}).first(), board)
            held = session.execute(sql.ACTIVE_OF_BOARD, {"of_board": board}).first()
            if held is not None:
                self._end(session, held.token, sql.LeaseState.REVOKED, reason, self._clock())

    def change(self, board: str, to: Callable[[Standing], Standing], kind: str) -> Standing:
        """See ``Book.change``."""
        caught = kind in (LIED, DISAGREES)
        with self._db.read() as session:  # most changes change nothing, and need not wait for a writer
            standing = rows.standing_of(_known(session.get(BoardRow, board), board))
            if to(standing) == standing and not caught:
                return standing
        with self._db.write() as session:
            row = _known(session.get(BoardRow, board, with_for_update=_LOCK), board)
            before = rows.standing_of(row)
            after = to(before)
            if after != before:
                for name, value in rows.columns(after).items():
                    setattr(row, name, value)
                row.faults += after.failures > before.failures
                if kind == RETURNED:
                    rows.accept_faster(row)
            if after != before or caught:  # also one that an operator has parked meanwhile
                detail = {**rows.columns(after), "before": before.health.value}
                self._add_event(session, board, kind, detail)
            if caught:
                doubt(session, board)
        return after

    def checked(self, board: str, check: Check) -> None:
        """See ``Book.checked``; a passed check of other code than before sets a new reference time."""
        detail = asdict(check)
        with self._db.write() as session:
            row = _known(session.get(BoardRow, board, with_for_update=_LOCK), board)
            row.last_check, row.checked = detail, self._now()
            if not check.problem and check.seconds is not None:
                known_s = row.reference_s if row.reference_artifact == check.artifact else None
                row.reference_s = check.seconds if known_s is None else min(known_s, check.seconds)
                row.reference_artifact = check.artifact
            self._add_event(session, board, "check", detail)

    def _add(self, session: Session, board: Listing) -> None:
        """Add a board; another coordinator may do so at the same time."""
        values = {
            "id": board.id,
            "target_key": board.target.key,
            "clock": board.clock,
            "threads": board.threads,
            "tags": list(board.tags),
            "kind": board.kind,
            "place": board.where,
            "enlisted": self._now(),
            "last_seen": self._now() if board.alive else None,
            **rows.columns(Standing()),
        }
        session.execute(insert(session, BoardRow).values(values).on_conflict_do_nothing())

    def _end(self, session: Session, token: int, state: sql.LeaseState, reason: str, now_s: float) -> None:
        """End a lease badly, unless it has ended already, and say so in the board's history."""
        values = {"of_token": token, "to_state": state.value, "now_s": now_s}
        ended = session.execute(sql.END, values).first()
        if ended is not None:
            detail = {"token": token, "holder": ended.holder, "job": ended.job, "reason": reason}
            self._add_event(session, ended.board, f"lease_{state.value}", detail)

    def _add_event(self, session: Session, board: str, kind: str, detail: dict[str, Any]) -> None:
        session.add(BoardEventRow(board=board, at=self._now(), kind=kind, detail=detail))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _known(found: _Found | None, board: str) -> _Found:
    if found is None:
        raise KeyError(board)
    return found
