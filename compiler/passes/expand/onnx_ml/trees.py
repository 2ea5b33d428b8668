"""Ensembles of trees of ai.onnx.ml, as one node of ours with tables of all of their nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from compiler.ir.own_nodes import OWN_DOMAIN, TREES
from compiler.passes.expand.microsoft.fused import Array, Fused
from compiler.passes.expand.onnx_ml.linear import after, classified, labels
from compiler.passes.expand.onnx_ml.nodes import MEMBER, Compared, Nodes, compared, ordered
from compiler.passes.expand.onnx_ml.wire import MODES, codes
from kernels.operators.trees import RECORD

DEEPEST = 256
MOST = 2**31
"""Trees of a model, and nodes of a tree."""
NOT_ONE = "has a tree of nodes that lead round, or one with nodes to which none leads"
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""What becomes of the leaves of all trees, in the order of TreeEnsemble's numbers."""


@dataclass(frozen=True)
class _Trees:
    """Nodes with ways that lead to rows, or to leaf ``i`` as ``-1 - i``.

    ``values`` are (leaves, results), or a number for the one result of each in ``targets``.
    """

    nodes: Nodes
    roots: Array
    values: Array
    targets: Array | None
    results: int
    whole: bool
    """Whether each leaf says something of each result."""


def _given(form: Fused, name: str, default: Any = ()) -> Any:
    """An attribute of numbers, which may be a tensor of them."""
    tensor = form.attributes.get(f"{name}_as_tensor", form.attributes.get(name, default))
    return numpy_helper.to_array(tensor) if isinstance(tensor, TensorProto) else np.asarray(tensor)


def _whole(form: Fused, name: str, default: Any = ()) -> Any:
    """An attribute of integers."""
    found = _given(form, name, default)
    return found if found.size else found.astype(np.int64)


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
    trees, numbers, yes, no = (
        _whole(form, f"nodes_{key}") for key in ("treeids", "nodeids", "truenodeids", "falsenodeids")
    )
    count, modes = len(trees), form.attributes.get("nodes_modes", ())
    modes = numpy_helper.to_array(modes) if isinstance(modes, TensorProto) else codes(modes)
    leaf = modes == MODES.index("LEAF")
    adds = [_given(form, f"{kind}_{key}") for key in ("treeids", "nodeids", "ids", "weights")]
    _fits(form, count, numbers, yes, no, modes)
    _fits(form, len(adds[0]), *adds)
    place_of = _Places(form, trees, numbers, leaf)
    leaves, to = -1 - place_of(adds[0], adds[1]), adds[2]
    if len(to) and (leaves.min() < 0 or to.min() < 0 or to.max() >= results):
        form.refuse("has a leaf that adds to nothing")
    said = _said(int(leaf.sum()), results, leaves, to, adds[3])
    del adds, leaves, to
    asking = np.flatnonzero(~leaf)
    trees = trees[asking]
    first, second = (place_of(trees, way[asking]) for way in (yes, no))
    del trees, yes, no
    roots = place_of.all_but(first, second)
    del numbers, place_of, leaf
    features, limits, missing = (
        _whole(form, f"nodes_{key}", default)
        for key, default in (
            ("featureids", ()),
            ("values", ()),
            ("missing_value_tracks_true", np.zeros(count, np.int8)),
        )
    )
    missing = missing if missing.size else np.zeros(count, np.int8)
    _fits(form, count, features, limits, missing)
    features, limits, modes, missing = (each[asking] for each in (features, limits, modes, missing))
    return _Trees(Nodes(features, limits, modes, first, second, missing), roots, *said)


def _said(
    count: int, results: int, leaves: Array, to: Array, weights: Array
) -> tuple[Array, Array | None, int, bool]:
    """What ``count`` leaves say, as ``_Trees`` has it, of ``weights`` for a leaf and a result each."""
    if results > 1 and np.bincount(leaves, minlength=1).max() <= 1:
        values, targets = np.zeros((count, 1), np.float64), np.zeros(count, np.int32)
        values[leaves, 0], targets[leaves] = weights, to
        return values, targets, results, False
    values, there = np.zeros((count, results), np.float64), np.zeros((count, results), bool)
    np.add.at(values, (leaves, to), weights)
    there[leaves, to] = True
    return values, None, results, bool(there.all())


class _Places:
    """Where the nodes of a table are by their trees and numbers; leaves are counted apart, from -1 down."""

    def __init__(self, form: Fused, trees: Array, numbers: Array, leaf: Array) -> None:
        self._form = form
        self._keys = _keys(form, trees, numbers)
        self._order = None
        if (self._keys[1:] <= self._keys[:-1]).any():
            self._order = np.argsort(self._keys, kind="stable")
        several = trees if self._order is None else np.sort(trees)
        self._trees = np.count_nonzero(several[1:] != several[:-1]) + 1
        counts = np.cumsum(leaf, dtype=np.int32)
        self._places = np.where(leaf, -counts, np.arange(len(leaf), dtype=np.int32) - counts)

    def __call__(self, trees: Array, numbers: Array) -> Array:
        wanted = _keys(self._form, trees, numbers)
        found = np.searchsorted(self._keys, wanted, sorter=self._order)
        np.minimum(found, len(self._keys) - 1, out=found)
        if self._order is not None:
            found = self._order[found]
        if (self._keys[found] != wanted).any():
            self._form.refuse("has a node or leaf that leads to none of its tree")
        return np.asarray(self._places[found])

    def all_but(self, *some: Array) -> Array:
        """The places that are none of ``some``, one in each tree, in the order of the table."""
        reached = np.zeros(len(self._places), bool)
        for places in some:
            # Those of leaves are below zero, and so count from the end: none is in the way of another.
            reached[places] = True
        first = ~reached[self._places]
        found = np.unique(self._keys[first] // MOST)
        if not len(found) == self._trees == np.count_nonzero(first):
            self._form.refuse(NOT_ONE)
        return np.asarray(self._places[first])


def _written_by_row(form: Fused, results: int) -> _Trees:
    """Of TreeEnsemble, where a way is a row of the nodes or of the leaves."""
    said = form.attributes
    features, yes, yes_leaf, no, no_leaf = (
        _whole(form, f"nodes_{key}")
        for key in ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    )
    modes, limits = _given(form, "nodes_modes"), _given(form, "nodes_splits")
    count = len(features)
    missing = _whole(form, "nodes_missing_value_tracks_true")
    missing = missing if missing.size else np.zeros(count, np.int8)
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
    if targets.min() < 0 or targets.max() >= results or modes.max() > MEMBER:
        form.refuse("has a leaf that adds to nothing, or compares in a way that is not known")
    first, second = (np.where(leaf, -1 - way, way) for way, leaf in ((yes, yes_leaf), (no, no_leaf)))
    # A set for each node that asks for one, with NaN behind each.
    sets: list[list[float]] = [[]]
    for value in _given(form, "membership_values").tolist():
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    asking = np.flatnonzero(modes == MEMBER).tolist()
    if len(sets) <= len(asking) or not all(sets[: len(asking)]):
        form.refuse("has a node that looks for a member of a set that is empty or missing")
    members = dict(zip(asking, sets, strict=False))
    nodes = Nodes(features, limits, modes.astype(np.uint8), first, second, missing, members)
    return _Trees(nodes, roots, *_said(leaves, results, np.arange(leaves), targets, weights))


def _check_ways(form: Fused, roots: Array, ways: tuple[Array, Array]) -> None:
    """Raises ModelError where some way down takes more than ``DEEPEST`` nodes, or goes round."""
    level, depth = roots[roots >= 0], 0
    reached = np.zeros(len(ways[0]), bool)
    while level.size:
        reached[level] = True
        there = np.zeros(len(ways[0]), bool)
        for way in ways:
            there[way[level][way[level] >= 0]] = True
        level, depth = np.flatnonzero(there), depth + 1
        if depth > DEEPEST:
            form.refuse(f"has trees of more than {DEEPEST} levels, or nodes that lead round")
    if not reached.all():
        form.refuse(NOT_ONE)


def _steps(ways: Array, leaves: int) -> Array:
    """Where ways lead as records are counted, from the first node that asks."""
    return RECORD * np.where(ways < 0, -1 - leaves - ways, ways).astype(np.int32)


def _records(form: Fused, nodes: Nodes, asked: Compared, leaves: int, exact: bool) -> Array:
    """Leaves come first, the last of them before 0, and lead to themselves; from 0 on are nodes that ask."""
    if len(nodes.features) and not 0 <= nodes.features.min() <= nodes.features.max() < MOST:
        form.refuse("has a node that asks for a column that is negative or too large")
    if RECORD * (leaves + len(asked.first)) >= MOST:
        form.refuse("has too many nodes")
    records = np.zeros((leaves + len(asked.first), RECORD), np.int32)
    records[leaves:, 0] = nodes.features
    for at, ways in ((1, asked.second), (2, asked.first)):
        records[:leaves, at] = RECORD * np.arange(-leaves, 0, dtype=np.int32)
        records[leaves:, at] = _steps(ways, leaves)
    if not exact:
        records[leaves:, 3] = asked.limits.view(np.int32)
    return records


def _sums(form: Fused, trees: _Trees, how: str) -> str:
    """What the leaves make together: (rows, results). Nobody else has the ``trees``, so that they go soon."""
    data = form.needed(0)
    exact = form.is_double(data)
    dtype: Any = np.float64 if exact else np.float32
    data = form.add("Cast", [data], to=TensorProto.DOUBLE if exact else TensorProto.FLOAT)
    if how in ("MIN", "MAX") and not trees.whole:
        form.refuse(f"takes the {how} of trees that do not all say something of each result")
    values, targets, roots, results = trees.values, trees.targets, trees.roots, trees.results
    nodes, leaves, count = ordered(trees.nodes), len(values), len(roots)
    del trees
    asked = compared(form, nodes, dtype)
    _check_ways(form, roots, (asked.first, asked.second))
    tables = [form.constant(_steps(roots, leaves))]
    tables.append(form.constant(_records(form, nodes, asked, leaves, exact)))
    tables += [
        "" if table is None else form.constant(np.concatenate([np.zeros(leaves), table]).astype(dtype))
        for table in (asked.limits if exact else None, asked.signs)
    ]
    tables += [form.constant(values.astype(dtype)), "" if targets is None else form.constant(targets)]
    rows = form.add("Gather", [form.add("Shape", [data]), form.constant(np.array([0]))])
    shape = form.add("Concat", [rows, form.constant(np.array([results]))], axis=0)
    total = form.add(
        TREES,
        [data, shape, *tables],
        domain=OWN_DOMAIN,
        operator=asked.operator,
        how="SUM" if how == "AVERAGE" else how,
        double=exact,
    )
    if how == "AVERAGE":
        total = form.add("Div", [total, form.constant(np.array(count, dtype))])
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
    results = int(form.attributes.get("n_targets", 1))
    form.finish(_sums(form, _written_by_row(form, results), AGGREGATES[how]))


def regressor(form: Fused) -> None:
    """TreeEnsembleRegressor."""
    how = form.attributes.get("aggregate_function", b"SUM").decode()
    if how not in AGGREGATES:
        form.refuse(f"takes the {how} of its trees, which is not known")
    results = int(form.attributes.get("n_targets", 1))
    total = _sums(form, _written_by_name(form, "target", results), how)
    form.finish(after(form, _floats(form, total)))


def classifier(form: Fused) -> None:
    """TreeEnsembleClassifier with weights for each class, or for one of two."""
    classes = labels(form)
    used = set(np.unique(_given(form, "class_ids")).tolist())
    if len(used) > 1 or len(classes) != 2:
        total = _sums(form, _written_by_name(form, "class", len(classes)), "SUM")
        classified(form, _floats(form, total), classes)
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
