"""Importing a tuning log: all of it or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kernels.target import CATALOGUE, Target
from server.db.database import Database
from server.http.problems import Problem
from server.records import repository
from tuner.log.record import LogError, Record, read_log
from worker.measure import plausible

_OURS = {target.key: target for target in CATALOGUE.values()}
_INT32 = 2**31
_INT64 = 2**63


def import_log(db: Database, lines: Iterable[bytes], target: Target | None) -> tuple[int, int]:
    """Store the records of a JSON-lines log; returns (new, already there).

    Raises a 422 problem that names the line when one is damaged or, with ``target`` given, is of another
    target. The whole log is read before the first record is stored.
    """
    records = list(_checked(lines, target))
    with db.write() as session:
        added = repository.add(session, records)
    return added, len(records) - added


def _checked(lines: Iterable[bytes], target: Target | None) -> Iterator[Record]:
    number = 0

    def decoded() -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(lines, start=1):  # noqa: B007 - read below, for the messages
            yield line.decode()

    try:
        for record in read_log(decoded()):
            if fault := _unstorable(record) or _implausible(record):
                raise Problem(422, f"line {number} of the log is damaged: {fault}")
            # What this lab knows of a target counts, not what others call it.
            record = replace(record, imported=True, target=_OURS.get(record.target.key, record.target))
            if target is not None and record.target.key != target.key:
                raise Problem(
                    422,
                    f"line {number} of the log is for target {_named(record.target)}, "
                    f"not for {_named(target)}: nothing was imported",
                )
            yield record
    except LogError as error:
        raise Problem(422, f"{error}; nothing was imported") from None
    except RecursionError:
        raise Problem(422, f"line {number} of the log is damaged: it is nested too deeply") from None
    except UnicodeDecodeError:
        raise Problem(422, f"line {number} of the log is damaged: it is not UTF-8 text") from None


def _named(target: Target) -> str:
    return f"{target.name!r} ({target.cpu}, key {target.key})"


def _implausible(record: Record) -> str | None:
    """Why no machine can have measured the record, or None."""
    least_s = plausible.least_s(record.workload.flops, record.target, record.threads)
    times = [record.cost_s, record.verified_s, record.in_place_s, record.placed_s, *record.repeats_s]
    try:
        plausible.times([seconds for seconds in times if seconds is not None], least_s)
        plausible.counters(record.counters, list(record.counters))
    except plausible.Lie as lie:
        return str(lie)
    return None


def _unstorable(record: Record) -> str | None:
    """Why no database column can hold the record, or None."""
    if not (0 < record.threads < _INT32 and 0 <= record.kernel_version < _INT32):
        return "threads or kernel_version is out of range"
    if record.workload.flops >= _INT64:
        return "the workload is impossibly large"
    names = {record.clock: 100, record.config.kernel: 64, record.target.name: 200, str(record.layouts): 64}
    if any(len(name) > most for name, most in names.items()):
        return "clock, kernel, target or layouts have an impossibly long name"
    try:
        json.dumps(record.to_json(), ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:  # half a surrogate pair, or a number that JSON does not have
        return str(error)
    if any("\0" in name for name in names):
        return "clock, kernel, target or layouts have a NUL in their name"
    return None
