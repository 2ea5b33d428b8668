"""The configs of the untuned model: every layer's search begins with them."""

from __future__ import annotations

from typing import Any

from kernels import target as targets
from kernels.numerics import Numerics
from tuner.backend.apply import plan_of
from tuner.frontend.graph import load_partition
from tuner.intake.shapes import sets_of


def untuned_in_child(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """Child: the configs of the plan that a build of ``model`` (a path) without a log makes.

    ``payload`` has ``shapes`` (one set or several), ``target``, ``threads`` and ``numerics`` as well. The
    answer is a list of ``{"key", "config"}``, those that most layers of a workload have first. Products that
    no kernel computes are not in it. Raises ModelError as a build does.
    """
    target, threads = targets.from_json(payload["target"]), payload["threads"]
    found: dict[tuple[str, str], list[Any]] = {}
    for shapes in sets_of(payload["shapes"]):
        partition = load_partition(payload["model"], shapes)
        plan = plan_of(partition, {}, target, threads, (), Numerics(payload["numerics"]))
        for product, option in zip(partition.products, plan.options, strict=True):
            if option is not None:
                key = product.workload.key
                found.setdefault((key, option.config.key), []).append(option.config)
    return [
        {"key": key, "config": configs[0].to_json()}
        for (key, _), configs in sorted(found.items(), key=lambda each: -len(each[1]))
    ]
