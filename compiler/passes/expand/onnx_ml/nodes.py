"""The nodes of trees as tables in which every comparison is of one kind, whatever kinds a file has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compiler.passes.expand.microsoft.fused import Array, Fused

OPERATORS = ("LessOrEqual", "Less", "GreaterOrEqual", "Greater")
"""ONNX's, of the first of ``MODES``: each is the opposite of the one as far from the other end."""
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)


@dataclass(frozen=True)
class Nodes:
    """A row for each node that asks; ways lead to rows, or to leaf ``i`` as ``-1 - i``.

    ``modes`` are places in ``MODES``, ``missing`` is whether NaN takes the first way; ``sets`` has what
    MEMBER nodes ask for.
    """

    features: Array
    limits: Array
    modes: Array
    first: Array
    second: Array
    missing: Array
    sets: Mapping[int, list[float]] = field(default_factory=dict)


class _Rows:
    """The columns of nodes as lists; rows are added to them."""

    def __init__(self, nodes: Nodes) -> None:
        self.features = nodes.features.tolist()
        self.columns = [
            each.tolist() for each in (nodes.limits, nodes.modes, nodes.first, nodes.second, nodes.missing)
        ]

    def add(self, like: int, limit: float, mode: int) -> int:
        """Another row of the feature of row ``like``."""
        self.features.append(self.features[like])
        self.put(len(self.features) - 1, limit, mode, -1, -1, False)
        return len(self.features) - 1

    def put(self, at: int, limit: float, mode: int, first: int, second: int, missing: bool) -> None:
        """Set all but the feature of row ``at``, which may be the next one."""
        row = (limit, mode, first, second, missing)
        for column, value in zip(self.columns, row, strict=True):
            column[at : at + 1] = [value]


def ordered(nodes: Nodes) -> Nodes:
    """``nodes`` with questions for equality as two for order each.

    NaN is unequal to every number, and both questions send it one way.
    """
    equal = np.flatnonzero((nodes.modes >= EQ) & (nodes.modes <= MEMBER)).tolist()
    if not equal:
        return nodes
    rows = _Rows(nodes)
    for at in equal:
        limit, mode, yes, no, missing = (column[at] for column in rows.columns)
        row = at
        if mode == NEQ:
            yes, no, missing = no, yes, False
        values = nodes.sets.get(at, [limit])
        for place, value in enumerate(values, 1):
            other = rows.add(row, value, LEQ) if place < len(values) else no
            both = rows.add(row, value, GTE)
            if missing:
                # NaN is neither below nor above.
                rows.put(row, value, LT, other, both, False)
                rows.put(both, value, GT, other, yes, False)
            else:
                rows.put(row, value, LEQ, both, other, False)
                rows.put(both, value, GTE, yes, other, False)
            row, missing = other, False
    limits, modes, first, second, missing = map(np.asarray, rows.columns)
    return Nodes(np.asarray(rows.features), limits, modes, first, second, missing)


@dataclass(frozen=True)
class Compared:
    """Tables: row i asks ``operator(signs[i] * value, limits[i])``; no signs where all are 1."""

    operator: str
    signs: Array | None
    limits: Array
    first: Array
    second: Array


def compared(form: Fused, nodes: Nodes, dtype: Any) -> Compared:
    """The one comparison of ``nodes``, which ask for order alone; NaN never passes it.

    Where NaN takes the first way the opposite is asked, and where some look for less and others for more
    those are of the negative: of numbers of this ``dtype`` "less than" is "at most the one before".
    """
    if len(nodes.modes) and nodes.modes.max() > GT:
        form.refuse("compares in a way that is not known")
    missing = nodes.missing.astype(bool)
    first, second, modes = nodes.first, nodes.second, nodes.modes
    if missing.any():
        first, second = np.where(missing, second, first), np.where(missing, first, second)
        modes = np.where(missing, GT - modes, modes)
    limits = nodes.limits.astype(dtype)
    kinds = np.flatnonzero(np.bincount(modes, minlength=1))
    if len(kinds) <= 1:
        return Compared(OPERATORS[kinds[0] if len(kinds) else LEQ], None, limits, first, second)
    bound = np.array(np.inf, dtype)
    # Below the least there is nothing, and nothing is at most NaN.
    less, more = np.flatnonzero(modes == LT), np.flatnonzero(modes == GT)
    for some, end in ((less, -bound), (more, bound)):
        limits[some] = np.where(limits[some] == end, np.nan, np.nextafter(limits[some], end))
    greater = modes >= GTE
    signs = np.where(greater, -1, 1).astype(dtype)
    if greater.all():
        return Compared("GreaterOrEqual", None, limits, first, second)
    return Compared("LessOrEqual", signs if greater.any() else None, limits * signs, first, second)
