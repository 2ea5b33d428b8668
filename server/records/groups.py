"""The groups of records that are ranked among themselves, and the best of each, without reading the rest.

A group is a workload, target, clock, thread count and pair of layouts. ``ix_records_best`` has the groups one
behind the other, the best record of each first: a query goes from group to group.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import CTE, BindParameter, ColumnElement, Select, bindparam, func, join, select, true
from sqlalchemy.orm import Session, aliased

from server.db.tables import RecordRow, TargetRow, WorkloadRow

RANK = (RecordRow.imported, RecordRow.disturbed, RecordRow.ranking_s, RecordRow.id)
"""What the records of a group are sorted by, as ``Record.rank`` does."""


# Statements are made once: to make one takes longer than to ask by it.
_TARGETS: BindParameter[Any] = bindparam("targets", expanding=True)
_WORKLOADS: BindParameter[Any] = bindparam("workloads", expanding=True)


def workloads(
    session: Session, target_keys: Sequence[str], threads: int | None, after: str, limit: int
) -> list[str]:
    """The first ``limit`` workloads behind a key that have a time on these targets."""
    asked = {"targets": list(target_keys), "threads": threads, "after": after, "most": limit}
    return list(session.execute(_having_times(threads is None), asked).scalars())


@cache
def _having_times(any_threads: bool) -> Select[Any]:
    has = select(RecordRow.id).where(
        RecordRow.workload_key == WorkloadRow.key,
        RecordRow.target_key.in_(_TARGETS),
        RecordRow.ranking_s.is_not(None),
        true() if any_threads else RecordRow.threads == bindparam("threads"),
    )
    query = select(WorkloadRow.key).where(WorkloadRow.key > bindparam("after"), has.exists())
    return query.order_by(WorkloadRow.key).limit(bindparam("most"))


def best_ids(
    session: Session,
    workload_keys: Sequence[str],
    target_keys: Sequence[str],
    allowed: ColumnElement[bool],
    *,
    threads: int | None = None,
    layouts: str | None = None,
) -> list[tuple[str, int]]:
    """The workload and the id of each group's best record that is ``allowed``, by workload and layouts."""
    asked = {"workloads": list(workload_keys), "targets": list(target_keys)}
    which = {"of_threads": threads, "of_layouts": layouts}
    found = session.execute(_bests(allowed, threads is None, layouts is None), {**asked, **which})
    return [(key, id_) for key, id_ in found if id_ is not None]


@lru_cache(maxsize=32)
def _bests(allowed: ColumnElement[bool], any_threads: bool, any_layouts: bool) -> Select[Any]:
    firsts, group = _first_of_each(), aliased(RecordRow)
    best = (
        select(RecordRow.id)
        .where(
            RecordRow.workload_key == group.workload_key,
            RecordRow.target_key == group.target_key,
            RecordRow.clock == group.clock,
            RecordRow.threads == group.threads,
            RecordRow.layouts == group.layouts,
            RecordRow.ranking_s.is_not(None),
            allowed,
        )
        .order_by(*RANK)
        .limit(1)
    )
    return (
        select(group.workload_key, best.correlate(group).scalar_subquery())
        .join(firsts, firsts.c.id == group.id)
        .where(
            true() if any_threads else group.threads == bindparam("of_threads"),
            true() if any_layouts else group.layouts == bindparam("of_layouts"),
        )
        .order_by(group.workload_key, group.layouts)
    )


def _first_of_each() -> CTE:
    """The id of one record of each group."""

    def following(workload: Any, target: Any, *behind: ColumnElement[bool]) -> Any:
        order = (RecordRow.clock, RecordRow.threads, RecordRow.layouts)
        of_both = (RecordRow.workload_key == workload, RecordRow.target_key == target)
        found = select(RecordRow.id).where(*of_both, RecordRow.ranking_s.is_not(None), *behind)
        return found.order_by(*order).limit(1).correlate_except(RecordRow).scalar_subquery()

    chosen = (WorkloadRow.key.in_(_WORKLOADS), TargetRow.key.in_(_TARGETS))
    columns = (WorkloadRow.key.label("workload"), TargetRow.key.label("target"))
    pairs = select(*columns, following(WorkloadRow.key, TargetRow.key).label("id"))
    pairs = pairs.select_from(join(WorkloadRow, TargetRow, true())).where(*chosen)
    firsts = pairs.cte("firsts", recursive=True)
    of = (firsts.c.workload, firsts.c.target)
    last = aliased(RecordRow)
    same_clock, same_threads = RecordRow.clock == last.clock, RecordRow.threads == last.threads
    # One by one, the nearest first: SQLite would read on from the clock for a comparison of all three.
    behind = func.coalesce(
        following(*of, same_clock, same_threads, RecordRow.layouts > last.layouts),
        following(*of, same_clock, RecordRow.threads > last.threads),
        following(*of, RecordRow.clock > last.clock),
    )
    step = select(firsts.c.workload, firsts.c.target, behind)
    return firsts.union_all(step.join(last, last.id == firsts.c.id))
