"""What a model may take on a target, before a job is paid for: by records where there are some, else by the
machine model."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import Session

from compiler.intake.extraction import Extraction
from kernels import target as targets
from kernels.numerics import Numerics
from kernels.target import Target
from kernels.workload import base as workloads
from server.in_child import Nursery, worked_out
from server.models.schemas import Forecast
from server.records import repository
from worker.children.nursery import Flag

TIMEOUT_S = 120.0


def predicted(
    nursery: Nursery, extraction: Extraction, target: Target, threads: int, cancelled: Flag
) -> list[float | None]:
    """Seconds of each workload by the machine model; a problem where that fails."""
    payload: dict[str, Any] = {
        "workloads": [workloads.to_json(each.workload) for each in extraction.operators],
        "target": targets.to_json(target),
        "threads": threads,
    }
    function = "tuner.explain.forecast:forecast_in_child"
    found: list[float | None] = worked_out(
        nursery, function, payload, "the forecast", "nothing can be foretold", cancelled, TIMEOUT_S
    )
    return found


def forecast(
    session: Session,
    extraction: Extraction,
    seconds: list[float | None],
    target: Target,
    clock: str,
    threads: int,
) -> Forecast:
    """The sums over the layers; ``seconds`` are what ``predicted`` found."""
    foretold = known_s = 0.0
    known = without = 0
    for operator, expected in zip(extraction.operators, seconds, strict=True):
        args = session, operator.workload.key, target.key, clock, threads, Numerics.EXACT_INTEGERS, None
        best = repository.best(*args)
        foretold += operator.count * (expected or 0.0)
        if best is not None:
            known, known_s = known + 1, known_s + operator.count * (best[1].isolated_s or 0.0)
        else:
            known_s += operator.count * (expected or 0.0)
            without += expected is None
    return Forecast(
        target=target.name,
        clock=clock,
        threads=threads,
        predicted_ms=foretold * 1e3,
        expected_ms=known_s * 1e3,
        known=known,
        workloads=len(extraction.operators),
        without=without,
    )
