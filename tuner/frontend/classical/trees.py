"""Ensembles of trees of ai.onnx.ml, as one node of ours with tables of all of their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from kernels.operators.trees import RECORD
from tuner.frontend.classical.linear import after, classified, labels
from tuner.frontend.classical.nodes import MODES, Nodes, compared, ordered
from tuner.frontend.microsoft.fused import Array, Fused
from tuner.frontend.own_nodes import OWN_DOMAIN, TREES

DEEPEST = 256
MOST = 2**31
"""Trees of a model, and nodes of a tree."""
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""What becomes of the leaves of all trees, in the order of TreeEnsemble's numbers."""


@dataclass(frozen=True)
class _Trees:
    """Nodes whose ways lead to rows, or to leaf ``i`` as ``-1 - i``; ``values`` are (leaves, results)."""

    nodes: Nodes
    roots: list[int]
    values: Array
    there: Array
    """Which of the values a leaf has."""


def _given(form: Fused, name: str) -> Any:
    """An attribute of numbers, which may be a tensor of them."""
    tensor = form.attributes.get(f"{name}_as_tensor", form.attributes.get(name, ()))
    return numpy_helper.to_array(tensor) if isinstance(tensor, TensorProto) else np.asarray(tensor)


def _fits(form: Fused, count: int, *columns: Any) -> None:
    if not count or {len(column) for column in columns} != {count}:
        form.refuse("has tables of nodes that do not fit together")


def _keys(form: Fused, trees: Array, numbers: Array) -> Array:
    """One number for a node of a tree."""
    for column in (trees, numbers):
        if len(column) and not 0 <= column.min() <= column.max() < MOST:
            form.refuse("has a number of a tree or node that is negative or too large")
    return trees.astype(np.int64) * MOST + numbers


def _written_by_name(form: Fused, kind: str, results: int) -> _Trees:
    """Of a classifier or regressor; ``kind`` is what it calls what leaves add to: ``class`` or ``target``."""
    said = form.attributes
    trees, numbers, features, yes, no = (
        np.asarray(said.get(f"nodes_{key}", ()), np.int64)
        for key in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    )
    modes = np.array([mode.decode().removeprefix("BRANCH_") for mode in said.get("nodes_modes", ())], object)
    limits, count = _given(form, "nodes_values"), len(trees)
    missing = np.asarray(said.get("nodes_missing_value_tracks_true") or [0] * count, bool)
    _fits(form, count, numbers, features, yes, no, modes, limits, missing)
    adds = [_given(form, f"{kind}_{key}") for key in ("treeids", "nodeids", "ids", "weights")]
    _fits(form, len(adds[0]), *adds)
    # Leaves and nodes that ask are counted apart.
    inner = modes != "LEAF"
    counts = np.cumsum(inner)
    places = np.where(inner, counts - 1, counts - np.arange(count) - 1)
    asking = np.flatnonzero(inner)
    keys = _keys(form, trees, numbers)
    order = np.argsort(keys, kind="stable")

    def place_of(of_trees: Array, of_numbers: Array) -> Array:
        wanted = _keys(form, of_trees, of_numbers)
        found = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), count - 1)]
        if (keys[found] != wanted).any():
            form.refuse("has a node or leaf that leads to none of its tree")
        return np.asarray(places[found])

    first, second = (place_of(trees[asking], way[asking]) for way in (yes, no))
    reached = np.isin(places, np.concatenate([first, second]))
    leaves, to = -1 - place_of(adds[0], adds[1]), adds[2]
    if len(to) and (leaves.min() < 0 or to.min() < 0 or to.max() >= results):
        form.refuse("has a leaf that adds to nothing")
    shape = (count - len(asking), results)
    values, there = np.zeros(shape, np.float64), np.zeros(shape, bool)
    np.add.at(values, (leaves, to), adds[3])
    there[leaves, to] = True
    asked, limited, modes_asked = features[asking].tolist(), limits[asking].tolist(), modes[asking].tolist()
    ways = first.tolist(), second.tolist()
    nodes = Nodes(asked, limited, modes_asked, *ways, missing[asking].tolist())
    return _Trees(nodes, places[~reached].tolist(), values, there)


def _written_by_row(form: Fused, results: int) -> _Trees:
    """Of TreeEnsemble, where a way is a row of the nodes or of the leaves."""
    said = form.attributes
    features, yes, yes_leaf, no, no_leaf = (
        np.asarray(said.get(f"nodes_{key}", ()), np.int64)
        for key in ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    )
    modes, limits = _given(form, "nodes_modes"), _given(form, "nodes_splits")
    count = len(features)
    missing = np.asarray(said.get("nodes_missing_value_tracks_true") or [0] * count, bool)
    _fits(form, count, yes, yes_leaf, no, no_leaf, modes, limits, missing)
    targets, weights = _given(form, "leaf_targetids"), _given(form, "leaf_weights")
    _fits(form, len(targets), targets, weights)
    roots, leaves = np.asarray(said.get("tree_roots", ()), np.int64), len(targets)
    for ways, last in (
        (yes, np.where(yes_leaf, leaves, count)),
        (no, np.where(no_leaf, leaves, count)),
        (roots, count),
    ):
        if not len(ways) or ways.min() < 0 or (ways >= last).any():
            form.refuse("has a node that leads to none of its tree")
    if targets.min() < 0 or targets.max() >= results or modes.max() >= len(MODES):
        form.refuse("has a leaf that adds to nothing, or compares in a way that is not known")
    values, there = np.zeros((leaves, results), np.float64), np.zeros((leaves, results), bool)
    values[np.arange(leaves), targets] = weights
    there[np.arange(leaves), targets] = True
    first, second = (np.where(leaf, -1 - way, way).tolist() for way, leaf in ((yes, yes_leaf), (no, no_leaf)))
    names = [MODES[mode] for mode in modes]
    nodes = Nodes(features.tolist(), limits.tolist(), names, first, second, missing.tolist())
    # A set for each node that asks for one, with NaN behind each.
    sets: list[list[float]] = [[]]
    for value in _given(form, "membership_values").tolist():
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    asking = [at for at, name in enumerate(names) if name == "MEMBER"]
    if len(sets) <= len(asking) or not all(sets[: len(asking)]):
        form.refuse("has a node that looks for a member of a set that is empty or missing")
    nodes.sets.update(zip(asking, sets, strict=False))
    return _Trees(nodes, roots.tolist(), values, there)


def _check_ways(form: Fused, roots: Array, ways: tuple[Array, Array]) -> None:
    """Raises ModelError where some way down takes more than ``DEEPEST`` nodes, or goes round."""
    level, depth = roots[roots >= 0], 0
    while level.size:
        there = np.zeros(len(ways[0]), bool)
        for way in ways:
            there[way[level][way[level] >= 0]] = True
        level, depth = np.flatnonzero(there), depth + 1
        if depth > DEEPEST:
            form.refuse(f"has trees of more than {DEEPEST} levels")


def _sums(form: Fused, trees: _Trees, how: str) -> str:
    """What the leaves make together: (rows, results)."""
    data = form.needed(0)
    exact = form.is_double(data)
    dtype: Any = np.float64 if exact else np.float32
    data = form.add("Cast", [data], to=TensorProto.DOUBLE if exact else TensorProto.FLOAT)
    ordered(trees.nodes)
    features = np.asarray(trees.nodes.features, np.int64)
    if len(features) and not 0 <= features.min() <= features.max() < MOST:
        form.refuse("has a node that asks for a column that is negative or too large")
    asked, (leaves, results) = compared(form, trees.nodes, dtype), trees.values.shape
    roots = np.asarray(trees.roots)
    _check_ways(form, roots, (asked.first, asked.second))
    # Leaves come first, the last of them before 0, and lead to themselves; from 0 on are the nodes that ask.
    here = np.arange(leaves)
    there = RECORD * (here - leaves)
    lower, upper, roots = (
        RECORD * np.where(way < 0, -1 - way - leaves, way) for way in (asked.first, asked.second, roots)
    )
    if RECORD * (leaves + len(lower)) >= MOST:
        form.refuse("has too many nodes")
    records = np.zeros((leaves + len(lower), RECORD), np.int32)
    for at, way in enumerate(([*here * 0, *features], [*there, *upper], [*there, *lower])):
        records[:, at] = way
    if how in ("MIN", "MAX") and not trees.there.all():
        form.refuse(f"takes the {how} of trees that do not all say something of each result")
    # Each leaf has a number for each result, or where they say something of one at most, just that.
    single = results > 1 and (trees.there.sum(axis=1) <= 1).all()
    targets = trees.there.argmax(axis=1)
    values = trees.values[here, targets][:, None] if single else trees.values
    if not exact:
        records[leaves:, 3] = asked.limits.astype(dtype).view(np.int32)
    tables: list[Array | None] = [roots.astype(np.int32), records]
    tables += [
        None if table is None else np.concatenate([np.zeros(leaves), table]).astype(dtype)
        for table in (asked.limits if exact else None, asked.signs)
    ]
    tables += [values.astype(dtype), targets.astype(np.int32) if single else None]
    rows = form.add("Gather", [form.add("Shape", [data]), form.constant(np.array([0]))])
    shape = form.add("Concat", [rows, form.constant(np.array([results]))], axis=0)
    total = form.add(
        TREES,
        [data, shape, *("" if table is None else form.constant(table) for table in tables)],
        domain=OWN_DOMAIN,
        operator=asked.operator,
        how="SUM" if how == "AVERAGE" else how,
        double=exact,
    )
    if how == "AVERAGE":
        total = form.add("Div", [total, form.constant(np.array(len(roots), dtype))])
    base = _given(form, "base_values").astype(dtype)
    if base.size not in (0, results):
        form.refuse(f"has {base.size} base values for {results} results")
    return form.add("Add", [total, form.constant(base)]) if base.size else total


def _floats(form: Fused, scores: str) -> str:
    return form.add("Cast", [scores], to=TensorProto.FLOAT)


def ensemble(form: Fused) -> None:
    """TreeEnsemble."""
    how, post = form.attributes.get("aggregate_function", 1), form.attributes.get("post_transform", 0)
    if not 0 <= how < len(AGGREGATES):
        form.refuse(f"has the aggregate_function {how}, which is not known")
    if post:
        form.refuse(
            f"has the post_transform {post}, which means one thing to ONNX and another to onnxruntime; write "
            "it as a Softmax or Sigmoid behind it"
        )
    trees = _written_by_row(form, form.attributes.get("n_targets", 1))
    form.finish(_sums(form, trees, AGGREGATES[how]))


def regressor(form: Fused) -> None:
    """TreeEnsembleRegressor."""
    how = form.attributes.get("aggregate_function", b"SUM").decode()
    if how not in AGGREGATES:
        form.refuse(f"takes the {how} of its trees, which is not known")
    trees = _written_by_name(form, "target", int(form.attributes.get("n_targets", 1)))
    form.finish(after(form, _floats(form, _sums(form, trees, how))))


def classifier(form: Fused) -> None:
    """TreeEnsembleClassifier with weights for each class, or for one of two."""
    classes = labels(form)
    used = set(form.attributes.get("class_ids", ()))
    if len(used) > 1 or len(classes) != 2:
        trees = _written_by_name(form, "class", len(classes))
        classified(form, _floats(form, _sums(form, trees, "SUM")), classes)
        return
    if used != {0}:
        form.refuse("adds to the second of two classes alone, which is not supported")
    # As onnxruntime has it: weights that are all positive are shares, others lie around zero.
    shares = _given(form, "class_weights").min() >= 0
    score = _floats(form, _sums(form, _written_by_name(form, "class", 1), "SUM"))
    high = form.add("Greater", [score, form.number(0.5 if shares else 0.0)])
    flat = form.add(
        "Reshape", [form.add("Cast", [high], to=TensorProto.INT64), form.constant(np.array([-1]))]
    )
    form.finish(form.add("Gather", [form.constant(classes), flat]))
    other = form.add("Sub", [form.number(1.0), score]) if shares else form.add("Neg", [score])
    pair = form.add("Concat", [other, score], axis=1)
    form.finish(pair if shares else after(form, pair), 1)
