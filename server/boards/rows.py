"""Rows of boards as the fleet's own types, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from server.db.documents import fitting
from server.db.tables import BoardEventRow, BoardRow
from worker.fleet.book import Entry, Lease, Purpose
from worker.fleet.states import Health, Standing


def standing_of(row: BoardRow) -> Standing:
    """How the board is. A damaged health counts as maintenance, so that lists of boards still work."""
    health = health_of(row.health)
    if health is None:
        why = f"its health cannot be read in the database: {row.health!r}; return or retire the board"
        return Standing(Health.MAINTENANCE, why)
    return Standing(health, row.reason, row.failures, row.draining)


def health_of(word: str) -> Health | None:
    """The health of that name; None where it cannot be read."""
    return next((each for each in Health if each == word), None)


def columns(standing: Standing) -> dict[str, Any]:
    """A standing as values of a board's row."""
    return {**asdict(standing), "health": standing.health.value}


def kin(boards: Iterable[BoardRow]) -> dict[tuple[str, str], tuple[tuple[str, str, float], ...]]:
    """By target and clock what ``Entry.kin`` has: of a board that never passed a check its last time."""
    found: dict[tuple[str, str], tuple[tuple[str, str, float], ...]] = {}
    for board in boards:
        of = (board.target_key, board.clock)
        seconds, artifact = board.reference_s, board.reference_artifact
        if seconds is None:
            last = last_check(board)
            seconds, artifact = last.get("seconds"), last.get("artifact", "")
        believed = not standing_of(board).lying and board.health != Health.RETIRED
        mine = ((board.id, artifact, seconds),) if seconds is not None and believed else ()
        found[of] = (*found.get(of, ()), *mine)
    return found


def last_check(board: BoardRow) -> dict[str, Any]:
    """What its last health check found; nothing where there was none, or what is kept of it is damaged."""
    return _of_check(board.last_check or {}, f"the last check of board {board.id}")


def detail_of(event: BoardEventRow) -> dict[str, Any]:
    """What a board's history says of something that happened."""
    what = f"entry {event.id} of the history of board {event.board}"
    if event.kind == "check":
        return _of_check(event.detail, what)
    return fitting(event.detail, dict[str, Any], {}, what)


def _of_check(said: Any, what: str) -> dict[str, Any]:
    found: dict[str, Any] = fitting(said, dict[str, Any], {}, what)
    fitting_ = {"seconds": float | None, "artifact": str, "problem": str}
    ok = {name: fitting(found[name], of, None, what) for name, of in fitting_.items() if name in found}
    return {**found, **ok}


def accept_faster(board: BoardRow) -> None:
    """Take its last time of the reference kernel for its best, where it failed for being faster than that."""
    last = last_check(board)
    seconds, best_s = last.get("seconds"), board.reference_s
    if last.get("artifact") == board.reference_artifact and seconds and best_s and seconds < best_s:
        board.reference_s = seconds


def entry_of(board: BoardRow, lease: Row[Any] | None, kin: tuple[tuple[str, str, float], ...] = ()) -> Entry:
    """What the book says of a board that ``lease``, a row of leases, holds."""
    return Entry(
        standing_of(board),
        Lease(lease.token, lease.board, lease.holder, Purpose(lease.purpose), lease.job) if lease else None,
        board.reference_s,
        board.reference_artifact,
        kin,
    )
