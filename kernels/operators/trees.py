"""Ensembles of decision trees: each row goes down each tree until it is at a leaf.

A step down waits for the memory, so several rows go down a tree beside each other, or where few are left a
row goes down several trees. A step has no branch: leaves lead to themselves until the last of these walks is
at one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.tir import F32
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc

TOGETHER = 12
"""So many walks beside each other."""
STEPS = 2
"""So many steps before the walks are asked whether all are at leaves."""
NEAR_BYTES = 2**18
"""Rows of so many bytes stay in a cache while they go down all trees."""
RECORD = 4
"""Numbers of a node in ``nodes``: its feature, where rows go that do not pass it, where others go, and the
bits of its limit if that is a float32."""


@dataclass(frozen=True)
class Trees:
    """What ``leaves`` of ``trees`` make of ``rows`` of ``columns`` numbers: ``results`` numbers of a row.

    There are ``nodes``, the leaves first; roots and ways are ``RECORD`` times the number of a node less
    ``leaves``, so that those below zero are at leaves. A row passes one where its number is ``below`` the
    limit ("at most" where ``equal``), else above; NaN never passes. Where trees are ``signed`` a number is
    multiplied with the node's sign before. ``how`` is SUM, MIN or MAX. A ``single`` leaf has one number for
    one result, others a number for each.
    """

    rows: int
    columns: int
    trees: int
    nodes: int
    leaves: int
    results: int
    dtype: str
    below: bool
    equal: bool
    signed: bool
    how: str
    single: bool

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the arguments, the result last."""
        shapes: dict[str, tuple[int, ...]] = {
            "data": (self.rows, self.columns),
            "roots": (self.trees,),
            "nodes": (self.nodes, RECORD),
        }
        if self.dtype != F32:
            shapes["limits"] = (self.nodes,)
        if self.signed:
            shapes["signs"] = (self.nodes,)
        shapes["values"] = (self.leaves, 1 if self.single else self.results)
        if self.single:
            shapes["targets"] = (self.leaves,)
        return {**shapes, "out": (self.rows, self.results)}


def build_trees(it: Trees, name: str) -> PrimFunc:
    """The PrimFunc ``name`` of rows, the node that each tree begins with, int32 records of nodes, limits of
    other types than float32, signs if any, numbers of leaves, the result that each is for if they are single,
    and results.

    Trees count in their order, in the type of the data.
    """
    whole = ("roots", "nodes", "targets")
    dtypes = {each: "int32" if each in whole else it.dtype for each in it.shapes}
    function = Function(name, it.shapes, dtypes)
    with function as buffers:
        _Walking(it, dict(zip(it.shapes, buffers, strict=True))).run()
    return function.result()


class _Walking:
    def __init__(self, it: Trees, buffers: dict[str, Buffer]) -> None:
        self.it, self.buffers = it, buffers
        self.at = tir.registers(TOGETHER, "int32")

    def run(self) -> None:
        it = self.it
        first = {"SUM": 0.0, "MIN": np.inf, "MAX": -np.inf}[it.how]
        with tir.loop(it.rows * it.results) as at:
            tir.store(self.buffers["out"], tirx.const(first, it.dtype), at)
        groups = it.rows // TOGETHER
        size = NEAR_BYTES // (it.columns * np.dtype(it.dtype).itemsize * TOGETHER)
        tir.blocks(groups, max(size, 1), self._groups)
        with T.serial(groups * TOGETHER, it.rows) as row:
            tir.blocks(it.trees, TOGETHER, lambda size, tree: self._go(size, row, tree, rows=False))

    def _groups(self, size: int, first: Expr) -> None:
        """Rows of ``size`` groups, a tree after the other."""
        with tir.loop(self.it.trees) as tree, tir.loop(size) as group:
            self._go(TOGETHER, T.Bind((first + group) * TOGETHER), tree, rows=True)

    def _go(self, size: int, row: Expr, tree: Expr, rows: bool) -> None:
        """So many ``rows`` go down a tree, or a row so many trees."""
        it = self.it
        places = [T.Bind(row + at) if rows else row for at in range(size)]
        starts = [T.Bind(place * it.columns) for place in places]
        for at in range(size):
            tir.store(self.at, self.buffers["roots"][tree if rows else tree + at], at)
        # All are at leaves where all have the sign.
        signs = reduce(tirx.bitwise_and, (self.at[at] for at in range(size)))
        with T.While(signs >= tir.index(0)):
            for _ in range(STEPS):
                for at in range(size):
                    self._step(at, starts[at])
        for at in range(size):
            self._add(self._node(at), places[at])

    def _step(self, at: int, start: Expr) -> None:
        it, nodes = self.it, self.buffers["nodes"]
        record = T.Bind(self.at[at] + it.leaves * RECORD)
        value = T.Bind(self.buffers["data"][start + nodes[record]])
        if it.dtype == F32:
            limit = T.Bind(tir.reinterpret(nodes[record + 3], F32, 1))
        else:
            limit = T.Bind(self.buffers["limits"][self._node(at)])
        if it.signed:
            value = T.Bind(value * self.buffers["signs"][self._node(at)])
        if it.below:
            passes = value <= limit if it.equal else value < limit
        else:
            passes = value >= limit if it.equal else value > limit
        tir.store(self.at, nodes[record + 1 + tir.convert(passes, "int32", 1)], at)

    def _node(self, at: int) -> Expr:
        """The number of the node that a walk is at."""
        return tirx.shift_right(self.at[at], tir.index(RECORD.bit_length() - 1)) + self.it.leaves

    def _add(self, leaf: Expr, row: Index) -> None:
        """What a leaf says of a row."""
        it, values, found = self.it, self.buffers["values"], T.Bind(leaf)
        if it.single:
            self._put(T.Bind(row * it.results + self.buffers["targets"][found]), T.Bind(values[found]))
            return
        with tir.loop(it.results) as result:
            value = T.Bind(values[found * it.results + result])
            self._put(T.Bind(row * it.results + result), value)

    def _put(self, place: Expr, value: Expr) -> None:
        out = self.buffers["out"]
        before = T.Bind(out[place])
        if self.it.how == "SUM":
            tir.store(out, before + value, place)
        else:
            better = value < before if self.it.how == "MIN" else value > before
            tir.store(out, tirx.Select(better, value, before), place)
