"""Records as rows of a table: a column a fact, a knob, a counter; for CSV, Parquet and data frames."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tuner.log.record import Record

_PLAIN = (
    "kernel_version",
    "threads",
    "clock",
    "cost_s",
    "verified_s",
    "remeasured",
    "in_place_s",
    "placed_s",
    "spread",
    "disturbed",
    "imported",
    "max_error",
    "cold",
    "message",
    "board",
    "temperature_c",
    "frequency_mhz",
    "created",
)


_FORMULA = ("=", "+", "-", "@", "\t", "\n")
"""How a cell begins that a spreadsheet computes, or reads as one after it has dropped what is in front."""


def row(record: Record) -> dict[str, Any]:
    """One record: its plain fields under their names, ``knob.NAME``, ``counter.NAME``, ``toolchain.NAME``.

    ``workload_json`` and ``target_json`` hold what has no column of its own.
    """
    value = record.to_json()
    return {
        "workload": str(record.workload),
        "workload_key": record.workload.key,
        "target": record.target.name,
        "target_key": record.target.key,
        "kernel": record.config.kernel,
        "config_key": record.config.key,
        "data_layout": record.layouts.data,
        "out_layout": record.layouts.out,
        "ranking_s": record.ranking_s,
        "gflops": record.gflops,
        "error": None if record.error is None else str(record.error),
        **{name: value[name] for name in _PLAIN},
        "repeats_s": value["repeats_s"],
        **{f"knob.{name}": item for name, item in record.config.knobs},
        **{f"counter.{name}": item for name, item in record.counters.items()},
        **{f"toolchain.{name}": item for name, item in record.toolchain.items()},
        "workload_json": json.dumps(value["workload"], sort_keys=True),
        "target_json": json.dumps(value["target"], sort_keys=True),
    }


def rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """All records, each with the same columns; None where a record has nothing there."""
    return list(_alike([row(record) for record in records]))


def _alike(found: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    columns: dict[str, None] = {}
    for each in found:
        columns |= dict.fromkeys(each)
    mixed = {
        name
        for name in columns
        if name.startswith("knob.") and len({type(each[name]) for each in found if name in each}) > 1
    }
    # A column has one type: a knob that is a number in one family and a word in another is words.
    for each in found:
        yield {
            name: str(each[name]) if name in mixed and name in each else each.get(name) for name in columns
        }


def to_csv(records: Iterable[Record]) -> str:
    """As CSV with a head line; lists are JSON, and None is empty.

    A text that a spreadsheet would take for a formula has a ``'`` before it.
    """
    return "".join(csv_lines(records))


def csv_lines(records: Iterable[Record]) -> Iterator[str]:
    """The lines of ``to_csv``. Each record that is read before the first is an empty text, as all must be
    known for the head: who takes the lines may pause or stop there."""
    found = []
    for record in records:
        found.append(row(record))
        yield ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, each in enumerate(_alike(found)):
        if number == 0:
            writer.writerow(map(csv_cell, each))
        writer.writerow(map(csv_cell, each.values()))
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def csv_cell(item: Any) -> Any:
    """What a cell of a CSV file has: lists as JSON, and a ``'`` before what would be taken for a formula."""
    if isinstance(item, list):
        return json.dumps(item)
    if not isinstance(item, str):
        return item
    # A lone CR ends a row for many readers, and csv does not put it into quotes.
    item = item.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{item}" if item.startswith(_FORMULA) else item
