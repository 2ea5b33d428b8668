"""The untuned model: the configs that every layer's search begins with, and what is predicted of it."""

from __future__ import annotations

from typing import Any

from compiler.intake.shapes import sets_of
from compiler.load import load_partition
from kernels import target as targets
from kernels.numerics import Numerics
from tuner.backend.apply import plan_of
from tuner.backend.shares import parts_of


def untuned_in_child(payload: dict[str, Any]) -> dict[str, Any]:
    """Child: the configs of the plan that a build of ``model`` (a path) without a log makes.

    ``payload`` has ``shapes`` (one set or several), ``target``, ``threads`` and ``numerics`` as well. In the
    answer ``configs`` is a list of ``{"key", "config", "predicted_s"}``, those that most layers of a workload
    have first. Products that no kernel computes are not in it. ``others_s`` is what is predicted of them, and
    of all other operators and conversions, in one run of each set of shapes. Raises ModelError as a build
    does.
    """
    target, threads = targets.from_json(payload["target"]), payload["threads"]
    found: dict[tuple[str, str], list[Any]] = {}
    others_s = 0.0
    for shapes in sets_of(payload["shapes"]):
        partition = load_partition(payload["model"], shapes)
        plan = plan_of(partition, {}, target, threads, (), Numerics(payload["numerics"]))
        for product, option in zip(partition.products, plan.options, strict=True):
            if option is not None:
                key = product.workload.key
                found.setdefault((key, option.config.key), []).append(option)
        parts = parts_of(partition, plan, target, threads)
        others_s += sum(part.seconds for part in parts if part.source in ("untuned", "default"))
    configs = [
        {"key": key, "config": options[0].config.to_json(), "predicted_s": options[0].seconds}
        for (key, _), options in sorted(found.items(), key=lambda each: -len(each[1]))
    ]
    return {"configs": configs, "others_s": others_s}
