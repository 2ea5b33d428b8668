"""The register blocks of a product, and where its columns are read: what there is, and what each takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.target import Target
from kernels.workload.base import View

PACKED, PLACE, ROWS = "packed", "place", "rows"
"""Columns are read from packed ``panels``, where they lie, or as rows of b's transpose that are multiplied
element by element."""
TURN_CYCLES = 4
"""Transposing one vector in registers, with its load and store."""
STEP_CYCLES = 0.5
"""What a step along k takes beside its arithmetic, which tells larger blocks from smaller ones."""
MOST_CHAINS = 4


@dataclass(frozen=True)
class Factors:
    """A product of m x k and k x n, and how the two lie."""

    m: int
    n: int
    k: int
    a: View
    b: View


@dataclass(frozen=True)
class Blocking:
    """``product`` by blocks of ``rows`` x ``vectors`` sums whose ``chains`` take turns."""

    product: Factors
    target: Target
    way: str
    rows: int
    vectors: int
    chains: int

    @property
    def height(self) -> int:
        """Rows of a tile."""
        return 1 if self.way == ROWS else self.rows

    @property
    def width(self) -> int:
        """Columns of a panel; read in place there are no more than the matrix has."""
        lanes = self.target.lanes()
        return lanes * (min(self.vectors, self.product.n // lanes) if self.way == PLACE else self.vectors)

    def why_not(self) -> str | None:
        """Why it cannot be, or None when it can."""
        sums = self.rows * self.vectors
        if self.way not in ways(self.product, self.target):
            return f"columns that lie so cannot be read the way {self.way}"
        if sums * self.chains > _limit(self.target):
            return f"{self.rows}x{self.vectors}x{self.chains} accumulators spill"
        if self.chains > 1 and (self.chains - 1) * sums >= 8:
            return "more chains than it takes to hide the latency"
        return None

    @cached_property
    def cycles(self) -> float:
        """What all of one product takes, packing and reading again included."""
        product, target, lanes = self.product, self.target, self.target.lanes()
        if self.way == ROWS:
            each = product.k / lanes * (lanes + 1) / target.loads_per_cycle + 4 * lanes
            return product.m * product.n / lanes * each
        panels, rest = divmod(ceil_div(product.n, lanes), self.vectors)
        step = panels * (STEP_CYCLES + machine.step_cycles(target, self.rows, self.vectors, self.chains))
        if rest:
            step += STEP_CYCLES + machine.step_cycles(target, self.rows, rest, self.chains)
        sums = product.k * ceil_div(product.m, self.rows) * step
        vectors = product.k * ceil_div(product.n, lanes)
        if self.way == PLACE:
            # Every row tile reads all of b again, from L2 where panels would be in L1.
            return sums + vectors * max(0, ceil_div(product.m, self.rows) - 1) * self._distant
        neighbours, rows = product.b.column == 1, product.b.row == 1
        return sums + vectors * (
            machine.move_cycles(target) if neighbours else TURN_CYCLES if rows else 2 * lanes
        )

    @property
    def _distant(self) -> float:
        """Cycles that a vector of b read where it lies takes longer than one of a panel."""
        dense = self.product.b.row <= 2 * self.product.n
        inside = 4 * self.product.k * self.product.n <= self.target.l1_bytes // 2
        return 0.0 if dense and inside else 0.25


def ways(product: Factors, target: Target) -> list[str]:
    """Where the columns of b can be read."""
    lanes = target.lanes()
    found = [PACKED]
    if product.b.column == 1 and product.n >= lanes:
        found.append(PLACE)
    if product.b.row == 1 and product.a.column == 1 and product.k >= lanes and product.n >= lanes:
        found.append(ROWS)
    return found


def tiles(product: Factors, target: Target) -> list[tuple[int, int]]:
    """The (rows, vectors) worth trying, wide ones first: as many rows as registers hold, and half of that."""
    limit, m = _limit(target), product.m
    # One row takes as many vectors as there are registers; more rows want some of both.
    most = min(ceil_div(product.n, target.lanes()), 4 if m > 1 else limit)
    found = []
    for vectors in range(most, 0, -1):
        tallest = max(1, min(limit, target.vector_registers - vectors - 1) // vectors)
        heights = {ceil_div(m, ceil_div(m, max(1, tall))) for tall in (tallest, tallest // 2)}
        found += [(rows, vectors) for rows in sorted(heights, reverse=True)]
    return found


def blockings(product: Factors, target: Target) -> list[Blocking]:
    """All that can be, those first that are to be taken where none is faster."""
    found = (
        Blocking(product, target, way, rows, vectors, chains)
        for way in ways(product, target)
        for rows, vectors in tiles(product, target)
        for chains in range(MOST_CHAINS, 0, -1)
    )
    return [blocking for blocking in found if blocking.why_not() is None]


def fastest(product: Factors, target: Target) -> Blocking:
    """The one predicted fastest."""
    return min(blockings(product, target), key=lambda blocking: blocking.cycles)


def _limit(target: Target) -> int:
    """How many sums fit beside the operands: with more, LLVM spills."""
    return target.vector_registers - 4
