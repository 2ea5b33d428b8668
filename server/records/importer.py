"""Importing a tuning log: all of it or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from kernels.target import CATALOGUE, Target
from server.db.database import Database
from server.http.problems import Problem
from server.in_child import GONE
from server.records import repository
from server.records.bests import changed
from server.records.grammar import fault
from tuner.log.record import LogError, Record, read_log
from worker.children.nursery import Flag

_OURS = {target.key: target for target in CATALOGUE.values()}


def import_log(db: Database, log: Path, target: Target | None, cancelled: Flag) -> tuple[int, int]:
    """Store the records of a JSON-lines log; returns (new, already there).

    Raises a 422 problem that names the line when one is damaged or, with ``target`` given, is of another
    target. The whole log is read before the first record is stored; nothing is once ``cancelled`` is set.
    """
    with log.open("rb") as lines:
        records = list(_checked(lines, target, cancelled))
    with db.write() as session:
        added = repository.add(session, records)
        changed(session, added)  # failures of jobs may have given way
    return len(added), len(records) - len(added)


def _checked(lines: Iterable[bytes], target: Target | None, cancelled: Flag) -> Iterator[Record]:
    number = 0

    def decoded() -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(lines, start=1):  # noqa: B007 - read below, for the messages
            if cancelled.is_set():
                raise Problem(400, GONE)
            yield line.decode()

    try:
        for record in read_log(decoded()):
            if damage := _unwritable(record) or fault(record):
                raise Problem(422, f"line {number} of the log is damaged: {damage}")
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
    except UnicodeDecodeError:
        raise Problem(422, f"line {number} of the log is damaged: it is not UTF-8 text") from None


def _named(target: Target) -> str:
    return f"{target.name!r} ({target.cpu}, key {target.key})"


def _unwritable(record: Record) -> str | None:
    """Why the record cannot be written as JSON in UTF-8, or None."""
    try:
        json.dumps(record.to_json(), ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:  # half a surrogate pair, or a number that JSON does not have
        return str(error)
    return None
