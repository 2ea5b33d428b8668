"""What all operators of a model are expected to take, those too that nothing is tuned of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph
from compiler.ir.own_nodes import PRODUCT
from compiler.ir.partition import Partition
from kernels.emit import machine
from kernels.target import Target
from tuner.layouts.plan import Plan

FREE = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Shape", "Cast"}
"""Operators that move nothing, or whose loop is that of their neighbours."""
STEEP = {
    "Softmax",
    "LogSoftmax",
    "Exp",
    "Log",
    "Sigmoid",
    "Tanh",
    "Erf",
    "Gelu",
    "HardSwish",
    "Softplus",
    "Pow",
}
STEEP_CYCLES = 16
"""A vector of exponentials and the like."""
UNTUNED_FLOPS_PER_CYCLE = 0.5
"""Products in TVM's own loops."""


@dataclass(frozen=True)
class Part:
    """``count`` operators called ``name``: a workload by its ``key``, or a kind of node that is not tuned.

    ``seconds`` are of all of them: as the plan has it for workloads, else roughly predicted.
    """

    name: str
    key: str
    source: str
    count: int
    seconds: float

    def to_json(self, total_s: float) -> dict[str, Any]:
        """As plain JSON values, with the share of ``total_s``."""
        share = self.seconds / total_s if total_s else 0.0
        return {
            "name": self.name,
            "key": self.key or None,
            "source": self.source,
            "count": self.count,
            "expected_s": self.seconds,
            "share": share,
        }


def parts_of(partition: Partition, plan: Plan, target: Target, threads: int) -> tuple[Part, ...]:
    """All operators of the model, the heaviest first.

    ``source`` is that of a product's config (``log``, ``analysis``), ``default`` of a product that no kernel
    computes, and ``untuned`` of all other operators.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    for product, option in zip(partition.products, plan.options, strict=True):
        workload = product.workload
        slow_s = machine.seconds(target, workload.flops / UNTUNED_FLOPS_PER_CYCLE)
        name = (str(workload), workload.key, option.source if option else "default")
        found.setdefault(name, []).append(option.seconds if option else slow_s)
    for node in partition.graph.nodes:
        if node.op_type != PRODUCT and node.op_type not in FREE:
            rule = plan.rules.get(node.output[0])
            seconds = rule.seconds(plan.layout_of(node.output[0])) if rule else 0.0
            cycles = _cycles(partition.graph, node, target) / threads
            operator = node.op_type.removeprefix("Tilefleet")
            found.setdefault((operator, "", "untuned"), []).append(seconds or machine.seconds(target, cycles))
    parts = [Part(*name, len(seconds), sum(seconds)) for name, seconds in found.items()]
    if plan.conversions:
        seconds = sum(conversion.seconds for conversion in plan.conversions)
        parts.append(Part("layout change", "", "untuned", len(plan.conversions), seconds))
    return tuple(sorted(parts, key=lambda part: -part.seconds))


def together(models: Iterable[Sequence[Part]]) -> tuple[Part, ...]:
    """The operators of one run of each of several models, the heaviest first."""
    found: dict[tuple[str, str, str], Part] = {}
    for part in (part for parts in models for part in parts):
        name = (part.name, part.key, part.source)
        known = found.get(name, replace(part, count=0, seconds=0.0))
        found[name] = replace(part, count=known.count + part.count, seconds=known.seconds + part.seconds)
    return tuple(sorted(found.values(), key=lambda part: -part.seconds))


def tuned_share(parts: Sequence[Part]) -> float:
    """The share of the expected time in what can be tuned."""
    total = sum(part.seconds for part in parts)
    return sum(part.seconds for part in parts if part.source in ("log", "analysis")) / total if total else 1.0


def _cycles(graph: OnnxGraph, node: NodeProto, target: Target) -> float:
    """Moving what it reads and writes by vectors, once, and what is steep in it."""
    names = [name for name in (*node.input, *node.output) if name and name not in graph.constants]
    vectors = sum(math.prod(graph.tensors[name].shape) for name in names if name in graph.tensors)
    written = math.prod(graph.tensors[node.output[0]].shape) if node.output[0] in graph.tensors else 0
    steep = STEEP_CYCLES * written if node.op_type in STEEP else 0
    return (machine.move_cycles(target) * vectors + steep) / target.lanes()
