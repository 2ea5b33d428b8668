"""What a built model is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from compiler.ir.partition import Partition
from kernels import registry
from kernels import target as targets
from kernels.layout import PLAIN, Layouts
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from kernels.workload import base as workloads
from kernels.workload.base import Workload
from tuner.backend.check import TOLERANCE
from tuner.backend.shares import Part, parts_of, together, tuned_share
from tuner.layouts.plan import Conversion, Plan
from tuner.log.record import Record

Source = Literal["log", "analysis", "default"]
QUANTIZED_TOLERANCE = 0.05
"""The same where values are rounded to bytes on the way: six quanta, of which ResNet-18 is off by one."""


@dataclass(frozen=True)
class Layer:
    """One product of the model: the nodes it computes, and where its config is from.

    ``log``: a measured config. ``analysis``: there was none, so the analysis's. ``default``: no kernel that
    is tuned computes it (``reason`` says why); what does sums products and so is exact.
    ``expected_s``, ``spread`` (the repeats' interquartile range over their median) and ``max_error`` are what
    the config's record has measured, None where there is none; ``clock`` is the record's, and ``disturbed``
    says that others had the machine as well.
    """

    nodes: tuple[str, ...]
    source: Source
    workload: Workload | None = None
    config: Config | None = None
    numerics: Numerics = Numerics.EXACT
    expected_s: float | None = None
    max_error: float | None = None
    spread: float | None = None
    clock: str = ""
    disturbed: bool = False
    reason: str = ""

    @property
    def layouts(self) -> Layouts:
        """What it reads and writes."""
        return PLAIN if self.config is None else self.config.layouts

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "nodes": list(self.nodes),
            "source": self.source,
            "workload": None if self.workload is None else workloads.to_json(self.workload),
            "key": None if self.workload is None else self.workload.key,
            "name": "" if self.workload is None else str(self.workload),
            "config": None if self.config is None else self.config.to_json(),
            "numerics": self.numerics.value,
            "layouts": str(self.layouts),
            "expected_s": self.expected_s,
            "max_error": self.max_error,
            "spread": self.spread,
            "clock": self.clock,
            "disturbed": self.disturbed,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Manifest:
    """All products of a built model, in the order they run, and the layout changes between them.

    ``estimate_s`` is what the plan expects of products, layout changes, pooling and concatenation.
    ``operators`` are all there are, also those that are not tuned, with what each kind is expected to take.
    ``tolerance`` is how far an output may be from the model's definition, relative to its largest value.
    ``inputs`` are the shapes it was planned for.
    """

    target: Target
    threads: int
    layers: tuple[Layer, ...]
    conversions: tuple[Conversion, ...] = ()
    estimate_s: float = 0.0
    tolerance: float = TOLERANCE
    operators: tuple[Part, ...] = ()
    inputs: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def tuned_share(self) -> float:
        """The share of the expected time in layers that can be tuned."""
        return tuned_share(self.operators)

    @property
    def numerics(self) -> Numerics:
        """The strictest word with which the same could have been asked for."""
        relaxed = [layer.workload for layer in self.layers if layer.numerics is Numerics.RELAXED]
        for word in (Numerics.EXACT, Numerics.EXACT_INTEGERS):
            if not any(workload and registry.must_be_exact(workload, word) for workload in relaxed):
                return word
        return Numerics.RELAXED

    @property
    def configs(self) -> tuple[Config | None, ...]:
        """The config of each layer, None where no kernel computes it."""
        return tuple(layer.config for layer in self.layers)

    def count(self, source: Source) -> int:
        """How many layers have their config from ``source``."""
        return sum(layer.source == source for layer in self.layers)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "target": targets.to_json(self.target),
            "threads": self.threads,
            "numerics": self.numerics.value,
            "inputs": {name: list(shape) for name, shape in self.inputs.items()},
            "layers": [layer.to_json() for layer in self.layers],
            "conversions": [conversion.to_json() for conversion in self.conversions],
            "estimate_s": self.estimate_s,
            "tolerance": self.tolerance,
            "operators": [
                part.to_json(sum(each.seconds for each in self.operators)) for part in self.operators
            ],
        }


def of_all(manifests: Sequence[Manifest]) -> Manifest:
    """That of a module for several sets of shapes: the layers of all, and what one run with each takes."""
    first = manifests[0]
    if len(manifests) == 1:
        return first
    return Manifest(
        first.target,
        first.threads,
        tuple(layer for each in manifests for layer in each.layers),
        tuple(conversion for each in manifests for conversion in each.conversions),
        sum(each.estimate_s for each in manifests),
        max(each.tolerance for each in manifests),
        together([each.operators for each in manifests]),
    )


def describe(partition: Partition, plan: Plan, target: Target, threads: int) -> Manifest:
    """The manifest of ``partition`` built by ``plan``."""
    layers = []
    for product, option in zip(partition.products, plan.options, strict=True):
        workload = product.workload
        if option is None:
            reason = registry.why_not_tunable(workload, target) or ""
            layers.append(Layer(product.nodes, "default", workload, reason=reason))
            continue
        computes = registry.numerics_of(workload, option.config)
        measured = _measured(option.record) if option.record else {}
        layers.append(Layer(product.nodes, option.source, workload, option.config, computes, **measured))
    for entry in partition.not_tunable:
        layers.append(Layer((entry.node,), "default", reason=f"{entry.op}: {entry.reason}"))
    quantized = bool(partition.operators) or any(p.workload.unit == "OP" for p in partition.products)
    tolerance = QUANTIZED_TOLERANCE if quantized else TOLERANCE
    return Manifest(
        target,
        threads,
        tuple(layers),
        plan.conversions,
        plan.seconds,
        tolerance,
        parts_of(partition, plan, target, threads),
        {name: info.shape for name, info in partition.graph.inputs.items()},
    )


def _measured(record: Record) -> dict[str, Any]:
    return {
        "expected_s": record.ranking_s,
        "max_error": record.max_error,
        "spread": record.spread,
        "clock": record.clock,
        "disturbed": record.disturbed,
    }
