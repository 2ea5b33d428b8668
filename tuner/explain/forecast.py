"""What the machine model expects of workloads before anything of them was measured."""

from __future__ import annotations

from typing import Any

from kernels import registry
from kernels.target import from_json as target_from_json
from kernels.workload.base import from_json


def forecast_in_child(payload: dict[str, Any]) -> list[float | None]:
    """Child: of ``{"workloads", "target", "threads"}``, the seconds that the analysis's config of each is
    predicted to take; None where no kernel computes it there."""
    target, threads = target_from_json(payload["target"]), payload["threads"]
    found: list[float | None] = []
    for document in payload["workloads"]:
        workload = from_json(document)
        if registry.why_not_tunable(workload, target) is not None:
            found.append(None)
            continue
        config = registry.recommendations(workload, target, threads=threads)[0]
        found.append(float(registry.kernel(config.kernel).predict(workload, config, target, threads)))
    return found
