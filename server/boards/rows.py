"""Rows of boards as the fleet's own types, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from server.db.tables import BoardRow
from worker.fleet.book import Entry, Lease, Purpose
from worker.fleet.states import Health, Standing


def standing_of(row: BoardRow) -> Standing:
    """How the board is."""
    return Standing(Health(row.health), row.reason, row.failures, row.draining)


def columns(standing: Standing) -> dict[str, Any]:
    """A standing as values of a board's row."""
    return {**asdict(standing), "health": standing.health.value}


def entry_of(board: BoardRow, lease: Row[Any] | None) -> Entry:
    """What the book says of a board that ``lease``, a row of leases, holds."""
    return Entry(
        standing_of(board),
        Lease(lease.token, lease.board, lease.holder, Purpose(lease.purpose), lease.job) if lease else None,
        board.reference_s,
        board.reference_artifact,
    )
