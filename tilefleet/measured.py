"""What has been measured of one workload, from a tuning log or from the server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kernels import target as targets
from kernels.target import Target
from kernels.workload import base as workloads
from kernels.workload.base import Workload
from server.jobs.schemas import Job
from tilefleet.client import Client
from tilefleet.errors import NotFound, TilefleetError
from tuner.log.record import LogError, Record, read_log

_KEY = re.compile(r"[0-9a-f]{16}")
_EXAMPLE = '{"kind": "gemm", "m": 64, "n": 256, "k": 512}'
_LOGGED = {"format", *(each.name for each in fields(Record))}


@dataclass(frozen=True)
class Measured:
    """Records of one workload without an error, and by (target key, threads, clock) the peak in GFLOP/s."""

    workload: Workload
    records: list[Record] = field(default_factory=list)
    peaks: dict[tuple[str, int, str], float] = field(default_factory=dict)

    def of(self, target: Target, threads: int, versions: dict[str, int]) -> list[Record]:
        """The records of today's kernels by one clock, the fastest first: the wall clock, else the newest."""
        found = [
            record
            for record in self.records
            if record.target.key == target.key
            and record.threads == threads
            and record.kernel_version == versions.get(record.config.kernel)
        ]
        newest = max(found, key=lambda record: (record.clock == "wall", record.created), default=None)
        alike = [record for record in found if newest is not None and record.clock == newest.clock]
        return sorted(alike, key=lambda record: record.rank)


def from_log(log: Path, wanted: str) -> Measured:
    """The records of the workload ``wanted`` (JSON, key or text) in a tuning log."""
    try:
        with log.open() as lines:
            records = [record for record in read_log(lines) if record.error is None]
    except (LogError, UnicodeDecodeError) as error:
        raise TilefleetError(f"{log}: {error}") from None
    workload = parsed(wanted) or _only(wanted, (record.workload for record in records), str(log))
    return Measured(workload, [record for record in records if record.workload == workload])


def from_server(client: Client, wanted: str) -> Measured:
    """The records of the workload ``wanted`` (JSON, key or text) on the server, and its peaks."""
    jobs = list(client.jobs())
    workload = parsed(wanted) or _only(wanted, _workloads(client, jobs, wanted), client.url)
    known = {target["name"]: targets.from_json(target).key for target in client.targets()}
    peaks = {
        (known.get(job.target, ""), job.threads, job.clock): job.peak_gflops
        for job in jobs
        if job.peak_gflops is not None
    }
    records = [_record(item.model_dump()) for item in client.records(workload=workload.key, error="none")]
    return Measured(workload, records, peaks)


def server_target(client: Client, name: str) -> Target | None:
    """The server's target of that name, or None when it has none."""
    try:
        return targets.from_json(client.target(name))
    except NotFound:
        return None


def parsed(wanted: str) -> Workload | None:
    """The workload when it is given as JSON, else None; raises TilefleetError for JSON that is none."""
    if not wanted.lstrip().startswith("{"):
        return None
    try:
        return workloads.from_json(json_object(wanted))
    except ValueError as error:
        raise TilefleetError(f"WORKLOAD: {error}") from None


def json_object(text: str) -> dict[str, Any]:
    """An object from JSON text; raises ValueError that says what is wrong with it."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {text!r}")
    return value


def _record(item: dict[str, Any]) -> Record:
    """A record as the server shows it: what is in the log, and some fields more."""
    return Record.from_json({name: value for name, value in item.items() if name in _LOGGED})


def _workloads(client: Client, jobs: Iterable[Job], wanted: str) -> Iterable[Workload]:
    """The server's workloads; that of a key is asked for directly when something was measured of it."""
    if _KEY.fullmatch(wanted):
        for record in client.records(workload=wanted):
            yield workloads.from_json(record.workload)
            return
    for job in jobs:
        for task in client.tasks(job.id):
            yield workloads.from_json(task.workload)


def _only(wanted: str, known: Iterable[Workload], where: str) -> Workload:
    """The one known workload with that key or text; text leaves out the padding, so two may share it."""
    found = {workload.key: workload for workload in known if wanted in (workload.key, str(workload))}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise TilefleetError(
            f"{wanted!r} is the text of {len(found)} workloads; give a key: {', '.join(found)}"
        )
    raise TilefleetError(
        f"{where} knows no workload {wanted!r}; give a key, or a text as the tables of tasks show it, "
        f"or JSON such as {_EXAMPLE}"
    )
