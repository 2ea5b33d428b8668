"""The nodes of trees as tables in which every comparison is of one kind, whatever kinds a file has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tuner.frontend.microsoft.fused import Array, Fused

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
"""What a node asks, in the order of TreeEnsemble's numbers."""
OPERATORS = {"LEQ": "LessOrEqual", "LT": "Less", "GTE": "GreaterOrEqual", "GT": "Greater"}
OPPOSITES = {"LEQ": "GT", "LT": "GTE", "GTE": "LT", "GT": "LEQ"}


@dataclass
class Nodes:
    """A row for each node that asks; ways lead to rows, or to leaf ``i`` as ``-1 - i``.

    ``missing`` is whether NaN takes the first way; ``sets`` has what MEMBER nodes ask for.
    """

    features: list[int]
    limits: list[float]
    modes: list[str]
    first: list[int]
    second: list[int]
    missing: list[bool]
    sets: dict[int, list[float]] = field(default_factory=dict)

    def add(self, like: int, limit: float, mode: str) -> int:
        """Another row of the feature of row ``like``."""
        self.features.append(self.features[like])
        self.put(len(self.modes), limit, mode, -1, -1, False)
        return len(self.modes) - 1

    def put(self, at: int, limit: float, mode: str, first: int, second: int, missing: bool) -> None:
        """Set all but the feature of row ``at``, which may be the next one."""
        row = (limit, mode, first, second, missing)
        columns: tuple[list[Any], ...] = (self.limits, self.modes, self.first, self.second, self.missing)
        for column, value in zip(columns, row, strict=True):
            column[at : at + 1] = [value]


def ordered(nodes: Nodes) -> None:
    """Write questions for equality as two for order each, in place.

    NaN is unequal to every number, and both questions send it one way.
    """
    for at in [at for at, mode in enumerate(nodes.modes) if mode in ("EQ", "NEQ", "MEMBER")]:
        mode, yes, no = nodes.modes[at], nodes.first[at], nodes.second[at]
        missing, row = nodes.missing[at], at
        if mode == "NEQ":
            yes, no, missing = no, yes, False
        values = nodes.sets.get(at, [nodes.limits[at]])
        for place, value in enumerate(values, 1):
            other = nodes.add(row, value, "LEQ") if place < len(values) else no
            both = nodes.add(row, value, "GTE")
            if missing:
                # NaN is neither below nor above.
                nodes.put(row, value, "LT", other, both, False)
                nodes.put(both, value, "GT", other, yes, False)
            else:
                nodes.put(row, value, "LEQ", both, other, False)
                nodes.put(both, value, "GTE", yes, other, False)
            row, missing = other, False


@dataclass(frozen=True)
class Compared:
    """Tables of which row i asks ``operator(signs[i] * value, limits[i])``; no signs where all are 1."""

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
    if unknown := set(nodes.modes) - OPPOSITES.keys():
        form.refuse(f"compares by {sorted(unknown)}, which is not known")
    missing = np.asarray(nodes.missing, bool)
    first, second = np.asarray(nodes.first, np.int64), np.asarray(nodes.second, np.int64)
    first, second = np.where(missing, second, first), np.where(missing, first, second)
    modes = np.array(nodes.modes, object)
    modes[missing] = [OPPOSITES[mode] for mode in modes[missing]]
    limits = np.asarray(nodes.limits, dtype)
    kinds = set(modes)
    if len(kinds) <= 1:
        return Compared(OPERATORS[kinds.pop() if kinds else "LEQ"], None, limits, first, second)
    bound = np.array(np.inf, dtype)
    # Below the least there is nothing, and nothing is at most NaN.
    below = np.where(limits == -bound, np.nan, np.nextafter(limits, -bound))
    above = np.where(limits == bound, np.nan, np.nextafter(limits, bound))
    limits = np.where(modes == "LT", below, np.where(modes == "GT", above, limits)).astype(dtype)
    greater = (modes == "GT") | (modes == "GTE")
    signs = np.where(greater, -1, 1).astype(dtype)
    if greater.all():
        return Compared("GreaterOrEqual", None, limits, first, second)
    return Compared("LessOrEqual", signs if greater.any() else None, limits * signs, first, second)
