"""What a built model is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kernels import target as targets
from kernels import workload as workloads
from kernels.numerics import Numerics
from kernels.space import Config
from kernels.target import Target
from kernels.workload import Workload

Source = Literal["log", "analysis", "default"]


@dataclass(frozen=True)
class Layer:
    """One product of the model: the nodes it computes, and where its config is from.

    ``log``: a measured config. ``analysis``: there was none, so the analysis's. ``default``: no kernel
    computes it (``reason`` says why), TVM's own lowering does, which sums products and so is exact.
    ``expected_s`` and ``max_error`` are what the config's record has measured, None where there is none.
    """

    nodes: tuple[str, ...]
    source: Source
    workload: Workload | None = None
    config: Config | None = None
    numerics: Numerics = Numerics.EXACT
    expected_s: float | None = None
    max_error: float | None = None
    reason: str = ""

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
            "expected_s": self.expected_s,
            "max_error": self.max_error,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Manifest:
    """All products of a built model, in the order they run."""

    target: Target
    threads: int
    layers: tuple[Layer, ...]

    @property
    def numerics(self) -> Numerics:
        """Exact when all layers are."""
        exact = all(layer.numerics is Numerics.EXACT for layer in self.layers)
        return Numerics.EXACT if exact else Numerics.RELAXED

    def count(self, source: Source) -> int:
        """How many layers have their config from ``source``."""
        return sum(layer.source == source for layer in self.layers)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "target": targets.to_json(self.target),
            "threads": self.threads,
            "numerics": self.numerics.value,
            "layers": [layer.to_json() for layer in self.layers],
        }
