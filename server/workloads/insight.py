"""What the trials of a workload say in all: which knobs matter, and what the machine model foresaw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from kernels import target as targets
from kernels.workload import base as workloads
from server.db.stored import target_of, workload_of
from server.db.tables import TargetRow
from server.in_child import Nursery, worked_out
from server.targets.service import Targets
from server.workloads import repository
from server.workloads.schemas import Insight, KnobEffect, Predicted
from worker.children.nursery import Flag

MOST = 2000
"""Trials looked at, thinned as a chart's."""
_STEPS = 20


def asked(
    session: Session, known: Targets, key: str, target: str, clock: str, threads: int
) -> tuple[dict[str, Any], Sequence[int], tuple[Any, ...]]:
    """What the child is asked, the records that it is asked about, and what stands for the question.

    A search adds trials by the second: the question stays the same until they are a twentieth more.
    """
    workload = repository.get_row(session, key)
    keys = known.keys(session, target)
    points = repository.trials(session, key, keys, clock, threads, MOST)
    row = session.get(TargetRow, keys[0])
    machine = target_of(row) if row else known.get(target)
    payload = {
        "workload": workloads.to_json(workload_of(workload)),
        "target": targets.to_json(machine),
        "threads": threads,
        "samples": [{"config": point.config, "cost_s": point.cost_s} for point in points.items],
    }
    rounded = int(math.log(max(1, points.total), 1 + 1 / _STEPS))
    return payload, [point.record for point in points.items], (key, tuple(keys), clock, threads, rounded)


def found(nursery: Nursery, payload: dict[str, Any], records: Sequence[int], cancelled: Flag) -> Insight:
    """The child's answer; a problem where it fails."""
    function = "tuner.explain.importance:insight_in_child"
    doing, cannot = "learning from the trials", "nothing can be learned"
    answer = worked_out(nursery, function, payload, doing, cannot, cancelled)
    return Insight(
        trials=sum(sample["cost_s"] is not None for sample in payload["samples"]),
        explained=answer["explained"],
        knobs=[KnobEffect.model_validate(each) for each in answer["knobs"]],
        predicted=[
            Predicted(record=record, predicted_s=seconds)
            for record, seconds in zip(records, answer["predicted_s"], strict=True)
            if seconds is not None
        ],
    )
