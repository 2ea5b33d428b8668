"""What a product of two activations is, and how it is computed: predicted, not yet tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from kernels.arithmetic import ceil_div, even
from kernels.emit import machine
from kernels.operators.matmul.view import View
from kernels.target import Target

DEEPEST = 512
"""How much of k is summed at a time where columns are packed."""
PARALLEL_FLOPS = 512 * 1024
"""Products of less work take about as long as waking another thread."""
TURN_CYCLES = 4
"""Transposing one vector in registers, with its load and store."""

STEP_CYCLES = 0.5
"""What a step along k takes beside its arithmetic, which tells larger blocks from smaller ones."""


@dataclass(frozen=True)
class MatMul:
    """out = alpha * a @ b for every place of a batch of ``extents``; a is m x k, b is k x n.

    The columns of ``out`` are neighbours (``out.column`` is 1). ``crossed``: a lies in the second array.
    """

    extents: tuple[int, ...]
    m: int
    n: int
    k: int
    a: View
    b: View
    out: View
    alpha: float = 1.0
    crossed: bool = False

    @property
    def batch(self) -> int:
        """How many products."""
        return math.prod(self.extents)

    @property
    def flops(self) -> int:
        """Floating-point operations, two a multiply-add."""
        return 2 * self.batch * self.m * self.n * self.k

    def canonical(self) -> MatMul:
        """The same product by the fewest axes: those that follow each other are one, and where all products
        share b their rows are rows of one."""
        strides = zip(self.a.batch, self.b.batch, self.out.batch, strict=True)
        axes = [pair for pair in zip(self.extents, strides, strict=True) if pair[0] > 1]
        m, rows = self.m, (self.a.row, self.out.row)
        while axes and axes[-1][1][1] == 0:
            extent, (left, _, result) = axes[-1]
            if m > 1 and (left, result) != (m * rows[0], m * rows[1]):
                break
            rows = (left, result) if m == 1 else rows
            m *= extent
            axes.pop()
        merged: list[tuple[int, tuple[int, int, int]]] = []
        for extent, steps in axes:
            if merged and merged[-1][1] == tuple(extent * step for step in steps):
                merged[-1] = (merged[-1][0] * extent, steps)
            else:
                merged.append((extent, steps))
        batches = [tuple(steps[which] for _, steps in merged) for which in range(3)]
        made = replace(
            self,
            extents=tuple(extent for extent, _ in merged),
            m=m,
            a=View(batches[0], rows[0], self.a.column),
            b=replace(self.b, batch=batches[1]),
            out=View(batches[2], rows[1], 1),
        )
        if made.n > 1 or made.m == 1 or made.out.row > 1:
            return made
        # A product by one column is that of one row by the transpose.
        return replace(made, m=1, n=made.m, a=made.b.turned, b=made.a.turned, crossed=not made.crossed)


@dataclass(frozen=True)
class Block:
    """A register block, and how many of its chains take turns."""

    rows: int
    vectors: int
    chains: int
    cycles: float
    """What all of m x n takes for each step of k."""


@dataclass(frozen=True)
class Plan:
    """How ``matmul`` is computed on ``target``."""

    matmul: MatMul
    target: Target
    threads: int = 1

    @property
    def lanes(self) -> int:
        """Columns of a vector."""
        return self.target.lanes()

    @cached_property
    def way(self) -> str:
        """Where columns are read: ``place``, ``packed`` panels, or ``rows`` of b's transpose, multiplied
        element by element."""
        product, lanes = self.matmul, self.lanes
        vectors = product.k * ceil_div(product.n, lanes)
        sides = product.b.column == 1, product.b.row == 1
        packing = vectors * (machine.MOVE_CYCLES if sides[0] else TURN_CYCLES if sides[1] else 2 * lanes)
        costs = {"packed": packing + product.k * self.block.cycles}
        if sides[0] and product.n >= lanes:
            # Every row tile reads all of b again, from L2 where panels would be in L1.
            again = vectors * max(0.0, ceil_div(product.m, self.block.rows) - 1) * self._distant
            costs["place"] = product.k * self.block.cycles + again
        if sides[1] and product.a.column == 1 and product.k >= lanes and product.n >= lanes:
            each = product.k / lanes * (lanes + 1) / self.target.loads_per_cycle + 4 * lanes
            costs["rows"] = product.m * product.n / lanes * each
        return min(costs, key=lambda way: costs[way])

    @property
    def _distant(self) -> float:
        """Cycles that a vector of b read where it lies takes longer than one of a panel."""
        dense = self.matmul.b.row <= 2 * self.matmul.n
        inside = 4 * self.matmul.k * self.matmul.n <= self.target.l1_bytes // 2
        return 0.0 if dense and inside else 0.25

    @cached_property
    def block(self) -> Block:
        """The register block with the fewest cycles."""
        return block_for(self.target, self.matmul.m, self.matmul.n)

    @property
    def height(self) -> int:
        """Rows of a tile."""
        return 1 if self.way == "rows" else self.block.rows

    @property
    def width(self) -> int:
        """Columns of a panel; read in place there are no more than the matrix has."""
        vectors = self.block.vectors
        return self.lanes * (min(vectors, self.matmul.n // self.lanes) if self.way == "place" else vectors)

    @property
    def deepest(self) -> int:
        """How much of k is packed at a time."""
        return max(size for size, _ in even(self.matmul.k, DEEPEST))

    @property
    def widest(self) -> int:
        """How many columns are packed at a time, at most: half of L2 holds them."""
        return max(1, self.target.l2_bytes // 8 // self.deepest // self.width) * self.width

    @property
    def parts(self) -> int:
        """How many threads share the work."""
        return self.threads if self.matmul.flops >= PARALLEL_FLOPS else 1

    @property
    def splits(self) -> int:
        """Into how many shares the rows of each product are divided, so that every thread has some."""
        parts, batch = self.parts, self.matmul.batch
        if batch % parts == 0 or batch >= 4 * parts:
            return 1
        return min(parts, ceil_div(self.matmul.m, self.height))


def block_for(target: Target, m: int, n: int) -> Block:
    """The register block in which m x n sums take the fewest cycles."""
    lanes, limit = target.lanes(), target.vector_registers - 4
    columns, best = ceil_div(n, lanes), None
    for vectors in range(1, min(columns, limit) + 1):
        # One row takes as many vectors as there are registers; more rows want some of both.
        if vectors > (4 if m > 1 else limit):
            break
        tallest = max(1, min(limit, target.vector_registers - vectors - 1) // vectors)
        tiles = ceil_div(m, tallest)
        rows = ceil_div(m, tiles)
        chains = max(1, min(4, limit // (rows * vectors), ceil_div(8, rows * vectors)))
        panels, rest = divmod(columns, vectors)
        cycles = panels * (STEP_CYCLES + machine.step_cycles(target, rows, vectors, chains))
        cycles += STEP_CYCLES + machine.step_cycles(target, rows, rest, chains) if rest else 0.0
        found = Block(rows, vectors, chains, tiles * cycles)
        if best is None or found.cycles <= best.cycles:
            best = found
    assert best is not None
    return best
