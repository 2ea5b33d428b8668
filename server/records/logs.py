"""Tuning logs as downloads."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Query, Request

from kernels.numerics import Numerics
from server.http.downloads import Download, WholeDownload
from server.http.turns import Turns
from server.records.repository import Selection
from tuner.log.record import Record, write_log
from tuner.log.relayouts import Relayouts, header
from tuner.log.rows import csv_lines

MEDIA_TYPE = "application/x-ndjson"
EXAMPLE = (
    '{"format": 1, "log": "Tilefleet tuning log", "schema": "tilefleet log --json-schema", "relayouts": []}\n'
    '{"format": 1, "workload": {"kind": "gemm", "m": 64, "n": 1000, "k": 512, ...}, "target": {...}, '
    '"config": {"kernel": "gemm", "mc": 64, ...}, "threads": 1, "clock": "wall", "cost_s": 0.00071, ...}\n'
)
Select = Annotated[
    Selection,
    Query(
        description="`best`: the fastest of each workload, pair of layouts, clock and thread count. Beside "
        "them what was tried of the untuned model's and the analysis's configs, failures too, so that a "
        "build by the log chooses as the job did. "
        "`top`: the `k` fastest; `all`: every record, failures too."
    ),
]
Allowed = Annotated[Numerics, Query(description="Only records of configs that it allows.")]
K = Annotated[int, Query(ge=1, le=1000, description="How many of each, for `top`.")]

LOG_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "JSON lines. The first says what the log is, and has `relayouts`, the times of "
        "conversions between layouts; each other one is a record.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": EXAMPLE}},
    }
}

TABLE_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": LOG_RESPONSE[200]["description"] + " Or a table with a head line.",
        "content": {**LOG_RESPONSE[200]["content"], "text/csv": {"schema": {"type": "string"}}},
    }
}
"""Either, as is asked for."""


def log_response(
    request: Request, turns: Turns, records: Iterator[Record], relayouts: list[Relayouts], name: str
) -> Download:
    """The log's header, then records, as a JSON-lines file called ``name``."""
    lines = itertools.chain([header(relayouts)], write_log(records))
    return Download(request, turns, lines, MEDIA_TYPE, f"{name}.jsonl")


def csv_response(
    request: Request, turns: Turns, kept: Turns, records: Iterator[Record], name: str
) -> WholeDownload:
    """Records as a table with a head line, a file called ``name``."""
    return WholeDownload(request, turns, csv_lines(records), "text/csv", f"{name}.csv", kept)
