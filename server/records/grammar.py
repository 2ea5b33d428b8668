"""What the fields of a record from outside may hold: what people and programs read is in them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta

from tuner.log.record import Record
from worker.fleet.drivers.spec import MOST_THREADS
from worker.measure import plausible

_INT32, _INT64 = 2**31, 2**63
MOST_MESSAGE = 1 << 16
MOST_ENTRIES, MOST_REPEATS = 200, 10_000
"""Of a record's knobs, counters and versions; of its times."""
LONGEST_S = 1e6
FIRST = datetime(2000, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)
"""By how much the clock of another lab may be ahead of ours."""
BOUNDS = {"spread": (0.0, 1e6), "max_error": (0.0, 1e6), **plausible.BOUNDS}


def fault(record: Record) -> str | None:
    """Why the record is none that a lab like this has written, or None."""
    for faults in (_sizes, _names, _numbers, _created):
        for text in faults(record):
            return text
    return None


def _sizes(record: Record) -> Iterator[str]:
    if not (0 < record.threads <= MOST_THREADS and 0 <= record.kernel_version < _INT32):
        yield f"threads or kernel_version is out of range (1 to {MOST_THREADS}, 0 to {_INT32 - 1})"
    if not 0 <= record.remeasured < _INT32:
        yield "remeasured is out of range"
    if record.workload.flops >= _INT64:
        yield "the workload is impossibly large"
    if len(record.message) > MOST_MESSAGE:
        yield f"the message has {len(record.message)} characters, of at most {MOST_MESSAGE}"
    if len(record.repeats_s) > MOST_REPEATS:
        yield f"there are {len(record.repeats_s)} repeats, of at most {MOST_REPEATS}"
    for name, entries in (
        ("features", record.target.features),
        ("knobs", record.config.knobs),
        ("counters", record.counters),
        ("toolchain", record.toolchain),
    ):
        if len(entries) > MOST_ENTRIES:
            yield f"there are {len(entries)} {name}, of at most {MOST_ENTRIES}"


def _names(record: Record) -> Iterator[str]:
    target, config = record.target, record.config
    names = {
        "clock": (record.clock, 100),
        "target.name": (target.name, 200),
        "target.triple": (target.triple, 200),
        "config.kernel": (config.kernel, 64),
        "config's layouts": (str(record.layouts), 64),
    }
    for what, (name, most) in names.items():
        if problem := _of_name(name, most):
            yield f"{what} {problem}"
    for what, name in (("board", record.board), ("target.cpu", target.cpu), ("target.matrix", target.matrix)):
        if name and (problem := _of_name(name, 200)):
            yield f"{what} {problem}"
    words = [("a feature", each) for each in target.features]
    words += [("a knob", each) for pair in config.knobs for each in pair if isinstance(each, str)]
    words += [("a counter", each) for each in record.counters]
    words += [("toolchain", each) for pair in record.toolchain.items() for each in pair]
    for what, word in words:
        if len(word) > 200 or not word.isprintable():
            yield f"{what} must have at most 200 characters, all printable, got {word[:40]!a}"


def _of_name(name: str, most: int) -> str | None:
    if 0 < len(name) <= most and name.isprintable() and name[0].isalnum():
        return None
    return (
        f"must be a name of 1 to {most} printable characters that begins with a letter or digit, "
        f"got {name[:40]!a}"
    )


def _numbers(record: Record) -> Iterator[str]:
    for name, (low, high) in BOUNDS.items():
        number = getattr(record, name)
        if number is not None and not low <= number <= high:
            yield f"{name} {number!r} is not from {low:g} to {high:g}"
    for each in fields(record.target):
        number = getattr(record.target, each.name)
        if isinstance(number, (int, float)) and not (math.isfinite(number) and 0 <= number < 2**53):
            yield f"target.{each.name} is out of range"
    if any(not -_INT64 <= each < _INT64 for _, each in record.config.knobs if isinstance(each, int)):
        yield "a knob is a number of more than 64 bits"
    times = [record.cost_s, record.verified_s, record.in_place_s, record.placed_s, *record.repeats_s]
    known = [seconds for seconds in times if seconds is not None]
    if any(seconds > LONGEST_S for seconds in known):
        yield f"a time is more than {LONGEST_S:g} s"
    least_s = plausible.least_s_of(record.workload, record.target, record.threads)
    try:
        plausible.times(known, least_s)
        plausible.counters(record.counters, list(record.counters))
    except plausible.Lie as lie:
        yield str(lie)


def _created(record: Record) -> Iterator[str]:
    if not record.created:
        return
    try:
        at = datetime.fromisoformat(record.created)
    except ValueError:
        yield f"created {record.created[:40]!a} is no time in ISO 8601"
        return
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    now = datetime.now(UTC)
    if not FIRST <= at <= now + AHEAD:
        yield f"created {record.created[:40]} is not from the year 2000 to now ({now:%Y-%m-%d %H:%M} UTC)"
