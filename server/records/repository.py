"""Records in the database."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Literal, TypeVar

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    case,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
    true,
)
from sqlalchemy.orm import Session, aliased

from kernels import registry
from kernels import target as targets
from kernels.layout import PLAIN, Layouts
from kernels.numerics import Numerics
from kernels.target import Target
from kernels.workload import base as workloads
from kernels.workload.base import Workload
from server.db.database import Database
from server.db.documents import UNREADABLE, DamagedError
from server.db.insert import insert
from server.db.stored import target_of, workload_of
from server.db.tables import RecordRow, TargetRow, TrialRow, WorkloadRow
from server.records import groups
from server.records.groups import RANK
from tuner.log.record import Identity, Record
from worker.outcome import ErrorKind

T = TypeVar("T")
log_ = logging.getLogger(__name__)
Selection = Literal["best", "top", "all"]
Found = tuple[int, Record]
_BATCH = 500
_SPARE = 5
_WORKLOADS = 50
"""Of a log's batch: the first lines come when their best records are found."""
_MANY = 7_470
"""Names the lock of whoever stores several records at once."""

# These say nothing about the config itself: a later measurement takes their place.
TRANSIENT = tuple(kind for kind in ErrorKind if kind.transient)
# Literals, because a statement for many rows takes no list as a parameter.
_OF_INTEGERS = tuple(kind for kind, each in workloads.KINDS.items() if each.unit == "OP")
"""Kinds of workloads whose results have to be exact, unless a query says otherwise."""
_TRANSIENT_ERROR = RecordRow.error.in_([literal_column(f"'{kind.value}'") for kind in TRANSIENT])
RECOMMENDED = text("trials.recommended")
"""Written out: a partial index serves only what says its condition word by word."""
_MEASURED = ("disturbed", "imported", "ranking_s", "rate", "error", "board", "placed", "document")
_IDENTITY = ["workload_key", "target_key", "clock", "config_key", "kernel_version", "threads"]


def add_workloads(session: Session, items: Iterable[Workload]) -> None:
    """Store workloads that are not there yet, and those whose document cannot be read any more."""
    rows = [
        {"key": key, "kind": item.kind, "document": workloads.to_json(item), "flops": item.flops}
        for key, item in sorted({item.key: item for item in items}.items())
    ]
    if rows:
        _mend(session, WorkloadRow, workload_of, rows)
        session.execute(insert(session, WorkloadRow).on_conflict_do_nothing(), rows)


def add_targets(session: Session, items: Iterable[Target], *, ours: bool = True) -> None:
    """The same with targets. What boards and jobs of this lab call them stays; records, which may come from
    elsewhere, rename none."""
    rows = [
        {"key": key, "name": item.name, "document": targets.to_json(item)}
        for key, item in sorted({item.key: item for item in items}.items())
    ]
    if rows:
        _mend(session, TargetRow, target_of, rows)
        statement = insert(session, TargetRow)
        if not ours:
            session.execute(statement.on_conflict_do_nothing(), rows)
            return
        named = {name: statement.excluded[name] for name in ("name", "document")}
        other = TargetRow.name != statement.excluded.name
        session.execute(
            statement.on_conflict_do_update(index_elements=["key"], set_=named, where=other), rows
        )


def _mend(session: Session, table: Any, read_: Callable[[Any], Any], rows: Sequence[dict[str, Any]]) -> None:
    """Put documents in the place of those that cannot be read: what a key stands for never changes."""
    right = {row["key"]: row["document"] for row in rows}
    for keys in _batches(list(right)):
        for stored in session.scalars(select(table).where(table.key.in_(keys))):
            try:
                read_(stored)
            except DamagedError as error:
                log_.warning("%s; it is written anew", error)
                stored.document = right[stored.key]
    session.flush()


def add(session: Session, records: Sequence[Record]) -> list[int]:
    """Store records; returns the ids of those that are new, or took another's place. Of equal identities the
    first stays.

    Only a failure that says nothing about the config, a disturbed time, and what was imported give way to a
    later record; what was measured here never does to what is imported, unless it says nothing.
    """
    if len(records) > 1 and session.get_bind().dialect.name == "postgresql":
        # Two that store the same rows in different orders would wait for each other.
        session.execute(select(func.pg_advisory_xact_lock(_MANY)))
    add_workloads(session, (record.workload for record in records))
    add_targets(session, (record.target for record in records), ours=False)
    added: list[int] = []
    for batch in _batches(records):
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        for record in batch:
            rows.setdefault(record.identity, columns(record))
        statement = insert(session, RecordRow)
        taken = {name: statement.excluded[name] for name in _MEASURED}
        from_here = not_(statement.excluded.imported)
        gives_way = or_(
            _TRANSIENT_ERROR,
            and_(RecordRow.imported, from_here),
            and_(RecordRow.disturbed, or_(RecordRow.imported, from_here)),
        )
        statement = statement.on_conflict_do_update(index_elements=_IDENTITY, set_=taken, where=gives_way)
        added += session.execute(statement.returning(RecordRow.id), list(rows.values())).scalars()
    return added


def find(session: Session, identity: Identity, *, lock: bool = False) -> RecordRow | None:
    """The stored record of this identity; with ``lock`` nobody else changes it until the transaction ends."""
    is_it = (getattr(RecordRow, name) == value for name, value in zip(_IDENTITY, identity, strict=True))
    query = select(RecordRow).where(*is_it)
    return session.execute(query.with_for_update() if lock else query).scalar_one_or_none()


def best(
    session: Session,
    workload: str,
    target: str,
    clock: str,
    threads: int,
    numerics: Numerics = Numerics.EXACT_INTEGERS,
    layouts: Layouts | None = PLAIN,
) -> Found | None:
    """The best correct record that ``numerics`` allows, by index; of any layouts where None is given."""
    query = with_documents().where(
        RecordRow.workload_key == workload,
        RecordRow.target_key == target,
        RecordRow.clock == clock,
        RecordRow.threads == threads,
        RecordRow.ranking_s.is_not(None),
        not_outdated(),
        _allowed(numerics),
        true() if layouts is None else RecordRow.layouts == str(layouts),
    )
    # More than one, as the first may be damaged.
    return next(iter(_found(session, query.order_by(*RANK).limit(_SPARE))), None)


def known(session: Session, workload: str, target: str, clock: str, threads: int) -> list[Record]:
    """All records of one search that may be used again: no outdated kernels, no passing failures."""
    query = with_documents().where(
        RecordRow.workload_key == workload,
        RecordRow.target_key == target,
        RecordRow.clock == clock,
        RecordRow.threads == threads,
        or_(RecordRow.error.is_(None), not_(_TRANSIENT_ERROR)),
        not_outdated(),
    )
    return [record for _, record in _found(session, query.order_by(RecordRow.id))]


def of_job(session: Session, job_id: int, *which: ColumnElement[bool]) -> dict[int, Record]:
    """The records of a job's trials, or those of a kind, by id."""
    return dict(_found(session, with_documents().where(in_job(job_id), *which)))


def log(
    db: Database,
    select_: Selection,
    k: int,
    *,
    target_keys: Sequence[str] | None = None,
    job: int | None = None,
    numerics: Numerics = Numerics.EXACT_INTEGERS,
) -> Iterator[Record]:
    """The log of a target or a job: all records, or the fastest of each (workload, clock, threads, layouts).

    Only of configs that ``numerics`` allows. Beside the one ``best`` of each there is what the untuned model
    and the analysis have, as far as it was tried, failures included: else a build by the log would not know
    that somebody looked, and might take that instead.

    Reads in batches of one short session each, so a slow download holds no lock.
    """
    among = RecordRow.target_key.in_(target_keys or []) if job is None else in_job(job)
    among = and_(among, _allowed(numerics))
    if select_ == "all":
        after: int | None = 0
        while after is not None:
            with db.read() as session:
                found, after = _some(session, with_documents().where(among, RecordRow.id > after), _BATCH)
            yield from (record for _, record in found)
        return
    if job is not None:
        with db.read() as session:
            ids = _top_ids(session, 1 if select_ == "best" else k, among)
            if select_ == "best":
                tried = _recommended(session, _allowed(numerics), TrialRow.job_id == job)
                ids += chain.from_iterable(tried[key] for key in sorted(tried))
            found = _of_ids(session, dict.fromkeys(ids))
        yield from (record for _, record in found)
        return
    tried = {}
    if select_ == "best":
        # The empty text keeps SQLite from going through all records of the target.
        of_target = (RecordRow.target_key + "").in_(target_keys or [])
        with db.read() as session:
            tried = _recommended(session, _allowed(numerics), of_target)
    last: str | None = ""
    while last is not None:
        with db.read() as session:
            keys = groups.workloads(session, target_keys or [], None, last, _WORKLOADS)
            if select_ == "best":
                firsts = groups.best_ids(session, keys, target_keys or [], _usable(numerics))
                ids = [each for _, each in firsts]
                ids += chain.from_iterable(tried.get(key, ()) for key in keys)
            else:
                ids = _top_ids(session, k, among, RecordRow.workload_key.in_(keys))
            found = _of_ids(session, dict.fromkeys(ids))
        yield from (record for _, record in found)
        last = keys[-1] if len(keys) == _WORKLOADS else None


def bests(
    session: Session,
    target_keys: Sequence[str],
    threads: int,
    numerics: Numerics,
    layouts: Layouts | None,
    after: str | None,
    limit: int,
) -> tuple[list[Found], str | None]:
    """The best records of the first ``limit`` workloads after a key, one a clock and layouts; the last of
    these keys where there are more."""
    allowed, pair = _usable(numerics), None if layouts is None else str(layouts)
    ids: dict[str, list[int]] = {}
    last: str | None = after or ""
    while last is not None:  # workloads that have nothing that is allowed do not count
        keys = groups.workloads(session, target_keys, threads, last, limit + 1)
        last = keys[-1] if len(keys) > limit else None
        for key, id_ in groups.best_ids(session, keys, target_keys, allowed, threads=threads, layouts=pair):
            if len(ids) == limit and key not in ids:
                return _of_ids(session, list(chain(*ids.values()))), next(reversed(ids))
            ids.setdefault(key, []).append(id_)
    return _of_ids(session, list(chain(*ids.values()))), None


def not_outdated() -> ColumnElement[bool]:
    """Leaves out records whose kernel generates other code by now."""
    return _of_versions(_versions())


def _versions() -> tuple[tuple[str, int], ...]:
    return tuple((each.name, each.version) for each in registry.all_kernels().values())


def _usable(numerics: Numerics) -> ColumnElement[bool]:
    """Leaves out outdated records, and those that ``numerics`` does not allow; the same object each time."""
    return _usable_of(_versions(), numerics)


@lru_cache(maxsize=8)
def _usable_of(versions: tuple[tuple[str, int], ...], numerics: Numerics) -> ColumnElement[bool]:
    return and_(_of_versions(versions), _allowed(numerics))


@lru_cache(maxsize=8)  # to make it takes longer than to ask by it
def _of_versions(versions: tuple[tuple[str, int], ...]) -> ColumnElement[bool]:
    # One term, however many kernels there are: with some numbers of terms SQLite sorts what its index has in
    # order.
    current = case(dict(versions), value=RecordRow.kernel, else_=RecordRow.kernel_version)
    return RecordRow.kernel_version == current


def _allowed(numerics: Numerics) -> ColumnElement[bool]:
    """Leaves out records of relaxed configs where only exact ones are allowed."""
    if numerics is Numerics.RELAXED:
        return true()
    exact, workload = RecordRow.exact.is_(True), aliased(WorkloadRow)
    of_floats = select(workload.key).where(
        workload.key == RecordRow.workload_key, workload.kind.not_in(_OF_INTEGERS)
    )
    return exact if numerics is Numerics.EXACT else or_(exact, of_floats.exists())


def in_job(job_id: int) -> ColumnElement[bool]:
    """Only records of a job's trials."""
    return RecordRow.id.in_(select(TrialRow.record_id).where(TrialRow.job_id == job_id))


@cache
def with_documents() -> Select[Any]:
    """All records: the id, and the documents that ``read`` makes a record of."""
    return (
        select(RecordRow.id, RecordRow.document, WorkloadRow.document, TargetRow.document)
        .join(WorkloadRow, WorkloadRow.key == RecordRow.workload_key)
        .join(TargetRow, TargetRow.key == RecordRow.target_key)
    )


def _top_ids(session: Session, k: int, *among: ColumnElement[bool]) -> list[int]:
    """The ids of the ``k`` best that may be used of each group, by workload, layouts and rank."""
    place = func.row_number().over(
        partition_by=(
            RecordRow.workload_key,
            RecordRow.target_key,
            RecordRow.clock,
            RecordRow.threads,
            RecordRow.layouts,
        ),
        order_by=RANK,
    )
    columns = (RecordRow.id, RecordRow.workload_key, RecordRow.layouts, place.label("place"))
    ranked = select(*columns).where(*among, RecordRow.ranking_s.is_not(None), not_outdated()).subquery()
    order = (ranked.c.workload_key, ranked.c.layouts, ranked.c.place)
    return list(session.execute(select(ranked.c.id).where(ranked.c.place <= k).order_by(*order)).scalars())


def _recommended(session: Session, *among: ColumnElement[bool]) -> dict[str, list[int]]:
    """The records of trials with recommended configs by workload key, one as often as it was a trial.

    Failures that say nothing of the config are left out.
    """
    query = (
        select(RecordRow.workload_key, RecordRow.id)
        .join(TrialRow, TrialRow.record_id == RecordRow.id)
        .where(*among, RECOMMENDED, or_(RecordRow.error.is_(None), not_(_TRANSIENT_ERROR)), not_outdated())
        .order_by(RecordRow.layouts, *RANK)
    )
    found: dict[str, list[int]] = {}
    for key, id_ in session.execute(query):
        found.setdefault(key, []).append(id_)
    return found


def _of_ids(session: Session, ids: Collection[int]) -> list[Found]:
    """The records with these ids, in their order."""
    by_id = dict(_found(session, with_documents().where(RecordRow.id.in_(ids))))
    return [(each, by_id[each]) for each in ids if each in by_id]


def _some(session: Session, query: Select[Any], limit: int) -> tuple[list[Found], int | None]:
    """The first ``limit`` rows of a query by id, and the id of the last of them where there are more."""
    rows = session.execute(query.order_by(RecordRow.id).limit(limit + 1)).all()
    return sound(rows[:limit]), rows[limit - 1][0] if len(rows) > limit else None


def _found(session: Session, query: Select[Any]) -> list[Found]:
    """The records that a query of ``_records`` finds."""
    return sound(session.execute(query))


def sound(rows: Iterable[Any]) -> list[Found]:
    """The records of rows, but for damaged ones: they fail no list (``damaged``)."""
    found = []
    for id_, *documents in rows:
        record = read(*documents)
        if isinstance(record, str):
            log_.warning("record %d is damaged and left out: %s", id_, record)
        else:
            found.append((id_, record))
    return found


def read(document: Any, workload: Any, target: Any) -> Record | str:
    """A record as its row, its workload's and its target's have it; what is wrong where one is damaged."""
    for name, stored in (("record", document), ("workload", workload), ("target", target)):
        if not isinstance(stored, dict) or UNREADABLE in stored:
            why = stored[UNREADABLE] if isinstance(stored, dict) else "it is no JSON object"
            return f"the document of the {name} cannot be read: {why}"
    try:
        return Record.from_json({**document, "workload": workload, "target": target})
    except Exception as error:  # a row may hold anything
        return str(error) or type(error).__name__


def damaged(session: Session, after: int, limit: int) -> tuple[list[tuple[int, str]], int | None]:
    """Of the ``limit`` records after one, the ids of damaged ones with what is wrong, and the last id looked
    at where there are more."""
    rows = session.execute(
        with_documents().where(RecordRow.id > after).order_by(RecordRow.id).limit(limit + 1)
    ).all()
    wrong = [(id_, why) for id_, *documents in rows[:limit] if isinstance(why := read(*documents), str)]
    return wrong, rows[limit - 1][0] if len(rows) > limit else None


def columns(record: Record) -> dict[str, Any]:
    """The values of a record's row."""
    document = record.to_json()
    del document["workload"], document["target"]
    workload, target, clock, config, version, threads = record.identity
    return {
        "workload_key": workload,
        "target_key": target,
        "clock": clock,
        "threads": threads,
        "config_key": config,
        "kernel": record.config.kernel,
        "kernel_version": version,
        "disturbed": record.disturbed,
        "imported": record.imported,
        "ranking_s": record.ranking_s,
        "rate": record.ranking_s and record.workload.flops / record.ranking_s,
        "error": record.error and record.error.value,
        "exact": record.numerics is Numerics.EXACT,
        "layouts": str(record.layouts),
        "board": record.board,
        "placed": record.placed_s is not None,
        "document": document,
    }


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
