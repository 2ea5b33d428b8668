"""What reading a model finds, as a coordinator keeps it: it imports nothing that reads models."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from compiler.ir.not_tunable import NotTunable
from kernels.workload import base as workloads
from kernels.workload.base import Workload


@dataclass(frozen=True)
class Operator:
    """One distinct workload; ``nodes`` lists, for every time it occurs, the nodes it is made of."""

    workload: Workload
    nodes: tuple[tuple[str, ...], ...]

    @property
    def count(self) -> int:
        """How often it occurs."""
        return len(self.nodes)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, with what follows from the workload."""
        return {
            "key": self.workload.key,
            "name": str(self.workload),
            "workload": workloads.to_json(self.workload),
            "nodes": [list(names) for names in self.nodes],
            "count": self.count,
            "flops": self.workload.flops,
        }


@dataclass(frozen=True)
class ModelInput:
    """One input of the model, its shape fixed."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Extraction:
    """All distinct workloads of a model in the order they first occur, and the nodes that are a problem.

    Read with several sets of shapes, ``inputs`` has those of the first and ``more`` those of the others.
    """

    inputs: tuple[ModelInput, ...]
    operators: tuple[Operator, ...]
    not_tunable: tuple[NotTunable, ...]
    more: tuple[tuple[ModelInput, ...], ...] = ()
    chains: tuple[Operator, ...] = ()
    """Pairs of the ``operators`` that could be computed as one; none where it was read long ago."""
    census: dict[str, int] = field(default_factory=dict)
    """How many nodes of each operator the model has, most first; empty where it was read long ago."""

    @property
    def flops(self) -> int:
        """Operations on floats of all tunable products in one run of the model with each set of shapes."""
        return sum(operator.workload.flops * operator.count for operator in self.operators)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; ``from_json`` reads it back."""
        return {
            "inputs": _inputs_to_json(self.inputs),
            "more": [_inputs_to_json(inputs) for inputs in self.more],
            "operators": [operator.to_json() for operator in self.operators],
            "chains": [operator.to_json() for operator in self.chains],
            "not_tunable": [asdict(entry) for entry in self.not_tunable],
            "flops": self.flops,
            "census": self.census,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Extraction:
        """Read what ``to_json`` wrote."""
        return cls(
            _inputs_from_json(value["inputs"]),
            _operators_from_json(value["operators"]),
            tuple(NotTunable(**entry) for entry in value["not_tunable"]),
            tuple(_inputs_from_json(inputs) for inputs in value.get("more", [])),
            _operators_from_json(value.get("chains", [])),
            value.get("census", {}),
        )


def _operators_from_json(values: list[dict[str, Any]]) -> tuple[Operator, ...]:
    return tuple(
        Operator(workloads.from_json(value["workload"]), tuple(tuple(names) for names in value["nodes"]))
        for value in values
    )


def _inputs_to_json(inputs: tuple[ModelInput, ...]) -> list[dict[str, Any]]:
    return [{**asdict(value), "shape": list(value.shape)} for value in inputs]


def _inputs_from_json(values: list[dict[str, Any]]) -> tuple[ModelInput, ...]:
    return tuple(ModelInput(i["name"], tuple(i["shape"]), i["dtype"]) for i in values)
