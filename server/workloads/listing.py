"""All workloads that were measured, to find one among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from kernels.workload.base import KINDS
from server.db.tables import RecordRow, TargetRow, WorkloadRow
from server.records import words
from server.workloads.schemas import WorkloadEntry, WorkloadPage


def page(
    session: Session, search: str | None, target_keys: Sequence[str] | None, after: int, limit: int
) -> WorkloadPage:
    """``limit`` workloads behind the first ``after``, those measured last first, that have all the words."""
    texts = words.having(session, words.split(search))
    # By kind of record, not one by one: there are few of them, and an index has them in order.
    query = select(RecordRow.workload_key, TargetRow.name, func.count(), func.max(RecordRow.id)).join(
        TargetRow, TargetRow.key == RecordRow.target_key
    )
    if target_keys is not None:
        query = query.where(RecordRow.target_key.in_(target_keys))
    found: dict[str, dict[str, Any]] = {}
    for key, name, count, last in session.execute(query.group_by(RecordRow.workload_key, TargetRow.name)):
        if key in texts:
            entry = found.setdefault(key, {"records": 0, "targets": [], "last": 0})
            entry["records"] += count
            entry["last"] = max(entry["last"], last)
            entry["targets"].append(name)
    ordered = sorted(found, key=lambda key: -found[key]["last"])
    shown = ordered[after : after + limit]
    rows = session.execute(select(WorkloadRow).where(WorkloadRow.key.in_(shown))).scalars()
    stored = {row.key: row for row in rows}
    items = [
        WorkloadEntry(
            key=key,
            text=texts[key],
            flops=stored[key].flops,
            unit=KINDS[stored[key].kind].unit,
            records=found[key]["records"],
            targets=sorted(found[key]["targets"]),
        )
        for key in shown
    ]
    more = len(ordered) > after + limit
    return WorkloadPage(items=items, next=str(after + limit) if more else None, total=len(ordered))
