"""The untuned model, which a job has to beat: a child plans it before the job runs."""

from __future__ import annotations

import logging
from dataclasses import replace

from kernels import target as targets
from kernels.space import Config
from server.in_child import MEMORY_BYTES, Nursery
from tuner.spec import JobSpec
from worker.children.nursery import ChildError, Flag

TIMEOUT_S = 120.0
log = logging.getLogger(__name__)


def with_incumbents(spec: JobSpec, nursery: Nursery, cancelled: Flag) -> JobSpec:
    """``spec`` with the untuned model's configs as the first trials of its tasks, and with predictions.

    A job of one workload, and one that has no plan in time, begin with the analysis's config.
    """
    if spec.model is None:
        return spec
    payload = {
        "model": spec.model,
        "shapes": spec.shapes,
        "target": targets.to_json(spec.demand.target),
        "threads": spec.demand.threads,
        "numerics": spec.numerics.value,
    }
    try:
        found = nursery.call(
            "tuner.job.untuned:untuned_in_child",
            payload,
            timeout_s=TIMEOUT_S,
            memory_bytes=MEMORY_BYTES,
            cancelled=cancelled,
        )
    except ChildError as error:
        log.warning(
            "job %d begins with the analysis's configs, as the untuned plan failed: %s", spec.id, error
        )
        return spec
    configs: dict[str, list[Config]] = {}
    predicted: dict[str, float] = {}
    for each in found["configs"]:
        configs.setdefault(each["key"], []).append(Config.from_json(each["config"]))
        predicted.setdefault(each["key"], each["predicted_s"])
    tasks = (
        replace(
            task,
            incumbents=tuple(configs.get(task.workload.key, ())),
            predicted_s=predicted.get(task.workload.key),
        )
        for task in spec.tasks
    )
    return replace(spec, tasks=tuple(tasks), others_s=found["others_s"])
