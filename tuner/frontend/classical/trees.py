"""Ensembles of trees of ai.onnx.ml: all trees go down one level at a time, from tables of their nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from tuner.frontend.classical.columns import floats, reduced
from tuner.frontend.classical.linear import after, classified, labels
from tuner.frontend.microsoft.fused import Array, Fused

COMPARISONS = {b"BRANCH_LEQ": "LessOrEqual", b"BRANCH_LT": "Less"}
DEEPEST = 64


@dataclass(frozen=True)
class _Trees:
    """Tables of all nodes; a leaf leads to itself. ``values`` are the leaves' (nodes, results)."""

    features: Array
    limits: Array
    lower: Array
    upper: Array
    values: Array
    roots: Array
    depth: int
    comparison: str


def _read(form: Fused, kind: str, results: int) -> _Trees:
    """The tables; ``kind`` is what the file calls what leaves add to: ``class`` or ``target``."""
    said = form.attributes
    if any(key.endswith("_as_tensor") for key in said):
        form.refuse("has numbers of 64 bits, which are not supported")
    trees, nodes = (np.asarray(said.get(f"nodes_{key}", ()), np.int64) for key in ("treeids", "nodeids"))
    modes: list[bytes] = list(said.get("nodes_modes", ()))
    count = len(trees)
    columns: dict[str, Array] = {
        key: np.asarray(said.get(f"nodes_{key}", ()), dtype)
        for key, dtype in (
            ("featureids", np.int64),
            ("values", np.float32),
            ("truenodeids", np.int64),
            ("falsenodeids", np.int64),
        )
    }
    if not count or {len(nodes), len(modes), *map(len, columns.values())} != {count}:
        form.refuse("has tables of nodes that do not fit together")
    place = {key: at for at, key in enumerate(zip(trees.tolist(), nodes.tolist(), strict=True))}
    leaf = np.array([mode == b"LEAF" for mode in modes])
    kinds = {mode for mode in modes if mode != b"LEAF"}
    if len(kinds) > 1 or not kinds <= COMPARISONS.keys():
        form.refuse(f"compares by {sorted(mode.decode() for mode in kinds)}; one of LEQ and LT is supported")
    missing = np.asarray(said.get("nodes_missing_value_tracks_true") or [0])
    if (missing[~leaf] if missing.size == count else missing).any():
        form.refuse("sends missing values down another way, which is not supported")
    here = np.arange(count)
    ways = []
    for key in ("truenodeids", "falsenodeids"):
        to = [place.get((int(tree), int(node)), -1) for tree, node in zip(trees, columns[key], strict=True)]
        ways.append(np.where(leaf, here, to))
    if min(way.min() for way in ways) < 0:
        form.refuse("has a node that leads to none of its tree")
    reached = np.zeros(count, bool)
    for way in ways:
        reached[way[~leaf]] = True
    roots = here[~reached]
    values = np.zeros((count, results), np.float64)
    for tree, node, to, weight in zip(
        *(said.get(f"{kind}_{key}", ()) for key in ("treeids", "nodeids", "ids", "weights")), strict=True
    ):
        if (tree, node) not in place or not 0 <= to < results:
            form.refuse("has a leaf that adds to nothing")
        values[place[tree, node], to] += weight
    return _Trees(
        np.where(leaf, 0, columns["featureids"]),
        columns["values"],
        ways[0],
        ways[1],
        values.astype(np.float32),
        roots,
        _depth(form, roots, ways, leaf),
        COMPARISONS[kinds.pop() if kinds else b"BRANCH_LEQ"],
    )


def _depth(form: Fused, roots: Array, ways: list[Array], leaf: Array) -> int:
    """How many levels there are; raises ModelError for more than ``DEEPEST``."""
    level, depth = roots, 0
    while not leaf[level].all():
        inner = level[~leaf[level]]
        level, depth = np.unique(np.concatenate([way[inner] for way in ways])), depth + 1
        if depth > DEEPEST:
            form.refuse(f"has trees of more than {DEEPEST} levels")
    return depth


def _sums(form: Fused, kind: str, results: int) -> str:
    """What the leaves add up to: (rows, results)."""
    trees, data = _read(form, kind, results), floats(form)
    # Each row begins at the roots of all trees.
    rows = form.add("Gather", [form.add("Shape", [data]), form.constant(np.array([0]))])
    shape = form.add("Concat", [rows, form.constant(np.array([len(trees.roots)]))], axis=0)
    at = form.add("Expand", [form.constant(trees.roots[None]), shape])
    tables = [form.constant(table) for table in (trees.features, trees.limits, trees.lower, trees.upper)]
    for _ in range(trees.depth):
        column, limit, lower, upper = (form.add("Gather", [table, at]) for table in tables)
        value = form.add("GatherElements", [data, column], axis=1)
        at = form.add("Where", [form.add(trees.comparison, [value, limit]), lower, upper])
    leaves = form.add("Gather", [form.constant(trees.values), at], axis=0)
    total = reduced(form, "ReduceSum", leaves, keepdims=0)
    base = np.asarray(form.attributes.get("base_values") or [0.0], np.float32)
    return form.add("Add", [total, form.constant(base)])


def regressor(form: Fused) -> None:
    """TreeEnsembleRegressor of sums and averages."""
    how = form.attributes.get("aggregate_function", b"SUM").decode()
    if how != "SUM":
        form.refuse(f"takes the {how} of its trees; only their sum is supported")
    form.finish(after(form, _sums(form, "target", int(form.attributes.get("n_targets", 1)))))


def classifier(form: Fused) -> None:
    """TreeEnsembleClassifier with weights for each class, or for one of two."""
    classes = labels(form)
    used = set(form.attributes.get("class_ids", ()))
    if len(used) > 1 or len(classes) != 2:
        classified(form, _sums(form, "class", len(classes)), classes)
        return
    if used != {0}:
        form.refuse("adds to the second of two classes alone, which is not supported")
    # As onnxruntime has it: weights that are all positive are shares, others lie around zero.
    shares = min(form.attributes.get("class_weights", ())) >= 0
    score = _sums(form, "class", 1)
    high = form.add("Greater", [score, form.number(0.5 if shares else 0.0)])
    flat = form.add(
        "Reshape", [form.add("Cast", [high], to=TensorProto.INT64), form.constant(np.array([-1]))]
    )
    form.finish(form.add("Gather", [form.constant(classes), flat]))
    other = form.add("Sub", [form.number(1.0), score]) if shares else form.add("Neg", [score])
    pair = form.add("Concat", [other, score], axis=1)
    form.finish(pair if shares else after(form, pair), 1)
