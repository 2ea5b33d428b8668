"""Baselines in the database."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.orm import Session

from server.baselines.schemas import Baseline
from server.db.tables import BaselineRow


def of_workloads(
    session: Session, workloads: Collection[str], targets: Collection[str], clock: str, threads: int
) -> dict[str, list[Baseline]]:
    """Baselines by workload, each workload's fastest first."""
    query = (
        select(BaselineRow)
        .where(
            BaselineRow.workload_key.in_(workloads),
            BaselineRow.target_key.in_(targets),
            BaselineRow.clock == clock,
            BaselineRow.threads == threads,
        )
        .order_by(BaselineRow.seconds)
    )
    found: dict[str, list[Baseline]] = {}
    for row in session.execute(query).scalars():
        baseline = Baseline(
            library=row.library, version=row.version, seconds=row.seconds, measured=row.measured
        )
        found.setdefault(row.workload_key, []).append(baseline)
    return found
