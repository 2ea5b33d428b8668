"""What boards said of themselves and is stored, read again: what cannot be is as if it were not there.

It may be from before it was checked, or damaged; the next job measures it again.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from kernels import target as targets
from kernels.target import Target
from server.db.tables import BandwidthRow, PeakRow, RelayoutRow, TargetRow
from tuner.log.relayouts import Relayouts, of_stored
from worker.measure import plausible

Key = tuple[str, int, str]
"""Target, threads and clock."""
FactRow = PeakRow | BandwidthRow | RelayoutRow
COLUMNS: dict[type[FactRow], str] = {PeakRow: "gflops", BandwidthRow: "gbs", RelayoutRow: "document"}
"""Where the tables have what was said."""
log = logging.getLogger(__name__)


def value(session: Session, table: type[FactRow], key: Key) -> Any:
    """A peak, a bandwidth or Relayouts; None where none is known that can be."""
    found = session.execute(_with_targets(table).where(*_is(table, key))).first()
    return None if found is None else _read(*found)


def peaks(session: Session, targets_: Collection[str]) -> dict[Key, float]:
    """All peaks of some targets."""
    found = session.execute(_with_targets(PeakRow).where(PeakRow.target_key.in_(targets_)))
    read = {(row.target_key, row.threads, row.clock): _read(row, target) for row, target in found}
    return {key: peak for key, peak in read.items() if peak is not None}


def relayouts(session: Session, *where: ColumnElement[bool]) -> list[Relayouts]:
    """Measured conversions between layouts; whatever is wrong with one of them fails no log."""
    found = session.execute(_with_targets(RelayoutRow).where(*where))
    return [times for row, target in found if (times := _read(row, target)) is not None]


def passed_over(session: Session) -> list[FactRow]:
    """The rows that cannot be, or cannot be read."""
    found = (each for table in COLUMNS for each in session.execute(_with_targets(table)))
    return [row for row, target in found if _read(row, target) is None]


def _with_targets(table: type[FactRow]) -> Any:
    return select(table, TargetRow.document).join(TargetRow, TargetRow.key == table.target_key)


def _is(table: type[FactRow], key: Key) -> tuple[ColumnElement[bool], ...]:
    return table.target_key == key[0], table.threads == key[1], table.clock == key[2]


def _read(row: FactRow, document: dict[str, Any]) -> Any:
    """What a row says, or None where it cannot be, which the log tells."""
    said = getattr(row, COLUMNS[type(row)])
    try:
        return checked(said, type(row), targets.from_json(document), row.threads, row.clock)
    except Exception as error:  # a row may hold anything
        key = (row.target_key, row.threads, row.clock)
        log.warning("%s of %s, by board %r, are passed over: %s", row.__tablename__, key, row.board, error)
        return None


def checked(said: Any, table: type[FactRow], target: Target, threads: int, clock: str) -> Any:
    """A peak or a bandwidth as it is, times as Relayouts; raises ValueError for what cannot be."""
    if table is RelayoutRow:
        return of_stored(said, target, threads, clock)
    if not (plausible.peak if table is PeakRow else plausible.bandwidth)(said, target, threads):
        raise ValueError(f"{said!r} cannot be")
    return said
