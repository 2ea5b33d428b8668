"""What a config makes of a workload, worked out in a child that may take its time but not for ever."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from kernels import target as targets
from kernels.space import Config
from kernels.target import Target
from kernels.workload import base as workloads
from server.db.documents import checked, fitting
from server.db.stored import read, target_of, workload_of
from server.db.tables import RecordRow, TargetRow, WorkloadRow
from server.http.problems import Problem
from server.in_child import Nursery, worked_out
from server.records import repository
from server.targets.service import Targets
from server.workloads.repository import get_row
from worker.children.nursery import Flag


def asked(
    session: Session,
    known: Targets,
    key: str,
    target: str,
    clock: str,
    threads: int,
    config: str,
    record: int | None = None,
) -> tuple[dict[str, Any], Target, float | None]:
    """What the child is asked, the machine, and the seconds of the record that is explained."""
    workload = get_row(session, key)
    keys = known.keys(session, target)
    if record is not None:
        return _of_record(session, workload, keys, record)
    bests = [
        found
        for each in keys
        if (found := repository.best(session, key, each, clock, threads, layouts=None)) is not None
    ]
    best = min((record for _, record in bests), key=lambda each: each.rank, default=None)
    if config == "best" and best is None:
        raise Problem(404, f"no record of workload {key} on target {target} with threads={threads}")
    row = session.get(TargetRow, best.target.key if best else keys[0])
    machine = target_of(row) if row else known.get(target)
    payload = {
        "workload": workloads.to_json(workload_of(workload)),
        "target": targets.to_json(machine),
        "threads": threads,
        "config": best.config.to_json() if best and config == "best" else None,
    }
    return payload, machine, best.isolated_s if best and config == "best" else None


def _of_record(
    session: Session, workload: WorkloadRow, keys: Sequence[str], id_: int
) -> tuple[dict[str, Any], Target, float | None]:
    row = session.get(RecordRow, id_)
    if row is None or row.workload_key != workload.key or row.target_key not in keys:
        raise Problem(404, f"there is no record {id_} of workload {workload.key} on that target")
    machine = target_of(session.get_one(TargetRow, row.target_key))
    said = checked(row.document, dict[str, Any], f"record {id_}")
    config = read(said.get("config"), Config.from_json, f"the config of record {id_}")
    payload = {
        "workload": workloads.to_json(workload_of(workload)),
        "target": targets.to_json(machine),
        "threads": row.threads,
        "config": config.to_json(),
    }
    return (
        payload,
        machine,
        fitting(said.get("verified_s") or said.get("cost_s"), float | None, None, f"record {id_}"),
    )


def question(payload: dict[str, Any]) -> str:
    """What stands for a payload: the same one has the same explanation."""
    return json.dumps(payload, sort_keys=True)


def explained(nursery: Nursery, payload: dict[str, Any], cancelled: Flag) -> dict[str, Any]:
    """The child's answer; a problem where it fails."""
    function = "tuner.explain.explain:explain_in_child"
    cannot = "that cannot be explained"
    found: dict[str, Any] = worked_out(nursery, function, payload, "compiling", cannot, cancelled)
    return found
