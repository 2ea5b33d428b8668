"""The register blocks of a product, wherever its factors and its sums lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.open_rows import OpenRows
from kernels.emit.outer_product import Sums
from kernels.emit.shares import Share
from kernels.emit.tvm import T
from kernels.emit.types import Expr, Index, Vector
from kernels.emit.vectors import transpose

Element = Callable[[Index, Index], Expr]
"""(row, place along k) -> an element of the left factor."""
Columns = Callable[[int, Index], Vector]
"""(column of the block, place along k) -> a vector of the right factor."""
Line = Callable[[Index, Index, int], Vector]
"""(row or column, first place along k, how many) -> neighbours along k, then zeros to fill the vector."""
Store = Callable[[Index, Index, Vector], None]
"""(row, first column, a vector of sums) -> stores them."""


@dataclass(frozen=True)
class Rows:
    """A thread's rows of a product, in tiles of ``height`` and a lower one of ``edge`` at the end."""

    share: Share
    height: int
    edge: int
    last: int
    """Where the lower tile begins."""

    def each(self, emit: Callable[[int, Index], None]) -> None:
        """``emit(height, first row)`` for every tile."""
        with T.serial(self.share.first, self.share.stop) as tile:
            emit(self.height, T.Bind(tile * self.height))
        if self.edge:
            with tir.when(self.share.last):
                emit(self.edge, tir.index(self.last))


def outer_products(
    rows: Rows | OpenRows,
    columns: int,
    depth: Index,
    lanes: int,
    chains: int,
    element: Element,
    vector: Columns,
    begin: Callable[[Sums, Index], None],
    finish: Callable[[Sums, Index], None],
) -> None:
    """All rows by one block of columns. ``begin`` and ``finish`` get each tile's sums and its first row."""

    def tile(height: int, top: Index) -> None:
        sums = Sums(height, columns, lanes, chains)
        begin(sums, top)
        sums.add(0, depth, lambda row, at: element(top + row, at), vector)
        finish(sums, top)

    rows.each(tile)


def inner_products(
    rows: Rows, columns: int, depth: int, lanes: int, left: Line, right: Line, store: Store
) -> None:
    """One row after another by ``columns``, at least as many as lanes, along k by whole vectors.

    As many sums as lanes are turned in registers and added up; the last ones overlap those before.
    """

    def row(_: int, top: Index) -> None:
        with tir.loop(ceil_div(columns, lanes)) as group:
            first = T.Bind(tir.least(group * lanes, columns - lanes))
            sums = tir.registers(lanes * lanes)
            slots = [tir.vector(lane * lanes, lanes) for lane in range(lanes)]
            for slot in slots:
                tir.store(sums, tir.zeros(lanes), slot)

            def add(at: Index, count: int) -> None:
                value = T.Bind(left(top, at, count))
                for lane, slot in enumerate(slots):
                    tir.store(sums, sums[slot] + value * right(first + lane, at, count), slot)

            with tir.loop(depth // lanes) as step:
                add(step * lanes, lanes)
            if depth % lanes:
                add(tir.index(depth - depth % lanes), depth % lanes)
            terms = [T.Bind(sums[slot]) for slot in slots]
            terms = transpose(terms) if lanes >= 4 else terms
            while len(terms) > 1:
                half = len(terms) // 2
                terms = [T.Bind(terms[i] + terms[i + half]) for i in range(half)]
            store(top, first, terms[0])

    rows.each(row)
