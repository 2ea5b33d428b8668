"""Extract what there is to tune in a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from compiler.intake.assemble import assemble
from compiler.intake.extraction import Extraction, ModelInput, Operator
from compiler.intake.shapes import GivenShapes, given_sets, is_open, sets_of
from compiler.ir.checks import Shapes
from compiler.load import load_partition, understood
from compiler.passes.chains import pairs_of, workload_of
from compiler.passes.epilogues.affine import merge_affine
from kernels.workload.base import Workload

TRY_OPEN = "tuner.backend.open_main:try_open"
"""Makes the functions of a model with an open size: by name, as builds know what is read here."""


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
    from compiler.intake.trial import try_import

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
