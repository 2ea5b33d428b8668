"""Queries about one workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, not_, select, true
from sqlalchemy.orm import Session

from server.db.documents import of_record, readable, seconds_of_record
from server.db.tables import BandwidthRow, PeakRow, RecordRow, TargetRow, WorkloadRow
from server.http.problems import Problem
from server.records import told
from server.workloads.schemas import Measured, TrialPoint, TrialPoints


def get_row(session: Session, key: str) -> WorkloadRow:
    """The workload's row, or a 404."""
    row = session.get(WorkloadRow, key)
    if row is None:
        raise Problem(404, f"there is no workload {key}")
    return row


def measured(session: Session, key: str) -> list[Measured]:
    """For which targets, by which clocks and with how many threads it was measured."""
    ours, quiet = not_(RecordRow.imported), not_(RecordRow.disturbed)
    ranks = [
        func.min(case((which, RecordRow.ranking_s))) for which in (and_(ours, quiet), ours, quiet, true())
    ]
    query = (
        select(
            TargetRow.name,
            TargetRow.key,
            RecordRow.clock,
            RecordRow.threads,
            func.count(),
            func.coalesce(*ranks),
        )
        .join(TargetRow, TargetRow.key == RecordRow.target_key)
        .where(RecordRow.workload_key == key)
        .group_by(TargetRow.name, TargetRow.key, RecordRow.clock, RecordRow.threads)
        .order_by(TargetRow.name, RecordRow.clock, RecordRow.threads)
    )
    return [
        Measured(
            target=name,
            target_key=of,
            clock=clock,
            threads=threads,
            records=count,
            best_s=best,
            peak_gflops=told.value(session, PeakRow, (of, threads, clock)),
            bandwidth_gbs=told.value(session, BandwidthRow, (of, threads, clock)),
        )
        for name, of, clock, threads, count, best in session.execute(query)
    ]


def trials(
    session: Session, key: str, target_keys: Sequence[str], clock: str, threads: int, limit: int
) -> TrialPoints:
    """Its trials, at most ``limit``: the fastest half, and the rest thinned evenly."""
    chosen = (
        RecordRow.workload_key == key,
        RecordRow.target_key.in_(target_keys),
        RecordRow.clock == clock,
        RecordRow.threads == threads,
    )
    total, ran = session.execute(select(func.count(), func.count(RecordRow.ranking_s)).where(*chosen)).one()
    columns = ("id", "ranking_s", "disturbed", "imported", "error", "layouts", "exact")
    query = select(
        *(getattr(RecordRow, name) for name in columns),
        of_record(session, RecordRow.document["config"]).label("config"),
        seconds_of_record(session, "verified_s").label("verified_s"),
        seconds_of_record(session, "cost_s").label("cost_s"),
    ).order_by(RecordRow.id)
    if total <= limit:
        rows = list(session.execute(query.where(*chosen)))
    else:
        ids = kept(_ranks(session, chosen), limit)
        parts = [ids[at : at + 500] for at in range(0, len(ids), 500)]
        rows = [row for part in parts for row in session.execute(query.where(RecordRow.id.in_(part)))]
    items = [
        point
        for row in rows
        if (point := readable(partial(_point, row), None, f"record {row[0]}")) is not None
    ]
    return TrialPoints(items=items, total=total, failed=total - ran)


def _ranks(
    session: Session, chosen: Iterable[ColumnElement[bool]]
) -> list[tuple[int, tuple[Any, ...] | None]]:
    """The id and what it ranks by of each record, None of those that failed."""
    found = session.execute(
        select(RecordRow.id, RecordRow.imported, RecordRow.disturbed, RecordRow.ranking_s)
        .where(*chosen)
        .order_by(RecordRow.id)
    )
    return [(row.id, None if row.ranking_s is None else tuple(row)[1:]) for row in found]


def _point(row: Any) -> TrialPoint:
    # Taken apart at once: to ask a row for a column by its name takes longer than to check the value.
    number, ranking_s, disturbed, imported, error, layouts, exact, config, verified_s, cost_s = row
    return TrialPoint(
        record=number,
        config=config,
        cost_s=verified_s or cost_s,
        ranking_s=ranking_s,
        disturbed=disturbed,
        imported=imported,
        error=error,
        layouts=layouts,
        numerics="exact" if exact else "relaxed",
    )


def kept(costs: list[tuple[int, tuple[Any, ...] | None]], limit: int) -> list[int]:
    """The ids of at most ``limit`` of the (id, rank), in their order: the best half, then an even part."""
    if len(costs) <= limit:
        return [id_ for id_, _ in costs]
    ran = sorted((cost, id_) for id_, cost in costs if cost is not None)
    fastest = {id_ for _, id_ in ran[: limit // 2]}
    rest = [id_ for id_, _ in costs if id_ not in fastest]
    room = limit - len(fastest)
    even = {rest[at * len(rest) // room] for at in range(room)}
    return [id_ for id_, _ in costs if id_ in fastest or id_ in even]
