"""What there is to tune in a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from kernels.workload import base as workloads
from kernels.workload.base import Workload
from tuner.frontend.affine import merge_affine
from tuner.frontend.chains import pairs_of, workload_of
from tuner.frontend.graph import NotTunable, load_partition, understood
from tuner.frontend.onnx_check import Shapes
from tuner.intake.assemble import assemble
from tuner.intake.shapes import GivenShapes, given_sets, is_open, sets_of

TRY_OPEN = "tuner.backend.open_main:try_open"
"""Makes the functions of a model with an open size: by name, as builds know what is read here."""


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


def extract(path: str | Path, shapes: GivenShapes = None) -> Extraction:
    """The workloads of the ONNX model at ``path``; ``shapes`` gives those of dynamic inputs, in one set or
    several: then a workload occurs as often as in all of them together.

    What is left open has its usual length. Raises ModelError that names what is wrong with the model or the
    shapes, or what of it cannot be built.
    """
    given = given_sets(shapes)
    if is_open(given[0]):
        with understood(Path(path).name):
            resolve_name(TRY_OPEN)(path, given[0])
    return _union([_extract(path, each, is_open(given[0])) for each in sets_of(shapes)])


def _union(found: Sequence[Extraction]) -> Extraction:
    return Extraction(
        found[0].inputs,
        _all(operator for each in found for operator in each.operators),
        tuple(dict.fromkeys(entry for each in found for entry in each.not_tunable)),
        tuple(each.inputs for each in found[1:]),
        _all(operator for each in found for operator in each.chains),
        found[0].census,
    )


def _all(found: Iterable[Operator]) -> tuple[Operator, ...]:
    """Each workload once, with the nodes of all."""
    operators: dict[Workload, tuple[tuple[str, ...], ...]] = {}
    for operator in found:
        operators[operator.workload] = operators.get(operator.workload, ()) + operator.nodes
    return tuple(Operator(workload, nodes) for workload, nodes in operators.items())


def _extract(path: str | Path, shapes: Shapes, wide: bool) -> Extraction:
    # Brings TVM along, for which those who only read extractions should not have to wait.
    from tuner.intake.trial import try_import

    partition = load_partition(path, shapes, wide)
    with understood(Path(path).name):
        merge_affine(partition.graph)
        try_import(partition)
    products = partition.products
    # What is left open has no chains: the partitions of its lengths are one and the same but for sizes.
    pairs = {} if wide else pairs_of(partition)
    both = [(products[first], products[second]) for first, second in pairs.items()]
    chains = [(chain, (*one.nodes, *two.nodes)) for one, two in both if (chain := workload_of(one, two))]
    return Extraction(
        tuple(ModelInput(name, info.shape, info.dtype) for name, info in partition.graph.inputs.items()),
        _all(Operator(product.workload, (product.nodes,)) for product in products),
        tuple(partition.not_tunable),
        chains=_all(Operator(chain, (nodes,)) for chain, nodes in chains),
        census=partition.census,
    )


def extract_child(payload: dict[str, Any]) -> dict[str, Any]:
    """``extract`` for a disposable child: ``{"path": ..., "shapes": {...}, [{...}, ...] or absent}`` to JSON.

    Given ``assembled``, a path, the model is first written there with the ``values`` of its inputs and
    the data that a zip has beside it, unless that makes more than ``largest`` bytes.
    """
    path = Path(payload["path"])
    if "assembled" in payload:
        whole = Path(payload["assembled"])
        assemble(path, whole, payload["values"], payload["largest"])
        path = whole
    return extract(path, payload.get("shapes")).to_json()
