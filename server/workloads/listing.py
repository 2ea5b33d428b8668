"""All workloads that were measured, to find one among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select, true
from sqlalchemy.orm import Session

from kernels.workload.base import KINDS
from server.db.tables import RecordRow, TargetRow, WorkloadRow
from server.records import words
from server.workloads.schemas import WorkloadEntry, WorkloadPage


def page(
    session: Session, search: str | None, target_keys: Sequence[str] | None, after: int, limit: int
) -> WorkloadPage:
    """``limit`` workloads behind the first ``after``, those measured last first, that have all the words."""
    texts = words.having(words.texts(session), words.split(search))
    chosen = true() if target_keys is None else RecordRow.target_key.in_(target_keys)
    # The last record of each is looked up in an index; only those that are shown are counted.
    last = select(func.max(RecordRow.id)).where(RecordRow.workload_key == WorkloadRow.key).scalar_subquery()
    query = select(WorkloadRow.key, last)
    if target_keys is not None:
        query = query.where(
            select(RecordRow.id).where(RecordRow.workload_key == WorkloadRow.key, chosen).exists()
        )
    found = [(at, key) for key, at in session.execute(query) if at is not None and key in texts]
    ordered = [key for _, key in sorted(found, reverse=True)]
    shown = ordered[after : after + limit]
    rows = session.execute(select(WorkloadRow).where(WorkloadRow.key.in_(shown))).scalars()
    stored = {row.key: row for row in rows}
    counts = _counts(session, shown, chosen)
    items = [
        WorkloadEntry(
            key=key,
            text=texts[key],
            flops=stored[key].flops,
            unit=KINDS[stored[key].kind].unit,
            records=sum(counts[key].values()),
            targets=sorted(counts[key]),
        )
        for key in shown
    ]
    more = len(ordered) > after + limit
    return WorkloadPage(items=items, next=str(after + limit) if more else None, total=len(ordered))


def _counts(session: Session, keys: Sequence[str], chosen: Any) -> dict[str, dict[str, int]]:
    """How many records each workload has, by the target's name."""
    query = select(RecordRow.workload_key, RecordRow.target_key, func.count()).where(
        RecordRow.workload_key.in_(keys), chosen
    )
    names = dict(session.execute(select(TargetRow.key, TargetRow.name)).all())
    found: dict[str, dict[str, int]] = {}
    for key, target, count in session.execute(query.group_by(RecordRow.workload_key, RecordRow.target_key)):
        named = found.setdefault(key, {})
        named[names[target]] = named.get(names[target], 0) + count
    return found
