"""The sizes that one GEMM config implies for one product."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.emit import machine, shares
from kernels.float.plan import FloatPlan
from kernels.knobs import KnobSet
from kernels.target import Target
from kernels.workload.base import Gemm

SPLITS = ("panels", "rows", "both")


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``rows`` x ``vectors`` is the register block, ``chains`` the sets of accumulators that take turns along
    k (one row alone cannot hide the latency of a multiply-add), and ``kc``, ``mc``, ``nc`` are how much of k,
    m and n is worked on at a time, for L1, L2 and L3. ``split`` says what threads share out: ``panels`` of
    columns, tiles of ``rows`` or ``both``.
    """

    rows: int
    vectors: int
    chains: int
    kc: int
    mc: int
    nc: int
    split: str = "panels"


@dataclass(frozen=True)
class Plan(FloatPlan[Gemm]):
    """A config's block sizes, in elements, fitted to the workload."""

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why the registers are too few or idle, or threads cannot share this out; None when all is well."""
        rows, vectors, chains = self.knobs.rows, self.knobs.vectors, self.knobs.chains
        limit, sums = accumulators(self.target), rows * vectors * chains
        if sums > limit:
            return f"{rows}x{vectors}x{chains} accumulators spill: {self.target.name} holds {limit}"
        if rows > 1 and sums + vectors + 1 > self.target.vector_registers:
            return f"{rows}x{vectors}x{chains} accumulators leave no registers for the operands"
        if chains > 1 and sums > max(8, limit // 2) and rows > 1:
            return "more chains than it takes to hide the latency"
        m = self.workload.m
        if rows < min(m, even_height(m, limit // (vectors * chains))) and rows * vectors < 8:
            return f"{rows}x{vectors} accumulators leave registers idle"
        if self.parts[1] > 1 and (self.parts[0] > self.panels or self.parts[1] > self.tiles):
            return "there are too few tiles for every thread to get one"
        return None

    def step_cycles(self, rows: int) -> float:
        """One product of each sum of ``rows`` of a tile."""
        return machine.step_cycles(self.target, rows, self.knobs.vectors, self.knobs.chains)

    @property
    def packing_cycles(self) -> float:
        """Packing of the data, all of it: they are read from where they lie."""
        return 0.0

    @property
    def parts(self) -> tuple[int, int]:
        """Into how many shares threads divide the panels and the row tiles."""
        return shares.parts(self.threads, self.knobs.split, SPLITS)

    @property
    def lanes(self) -> int:
        """Columns of a vector."""
        return self.target.lanes()

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return min(self.knobs.rows, self.workload.m)

    @property
    def kc(self) -> int:
        """How much of k is worked on at a time."""
        return min(self.knobs.kc, self.workload.k)

    @property
    def mc(self) -> int:
        """How much of m, in whole tiles."""
        return max(1, self.knobs.mc // self.rows) * self.rows

    @property
    def nc(self) -> int:
        """How much of n, in whole panels."""
        return max(1, self.knobs.nc // self.width) * self.width

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.knobs.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels, with the narrower last one."""
        return ceil_div(self.workload.n, self.width)

    @property
    def whole_panels(self) -> int:
        """Panels of full width."""
        return self.workload.n // self.width

    @property
    def edge_columns(self) -> int:
        """Columns of the narrower last panel."""
        return self.workload.n % self.width

    @property
    def tiles(self) -> int:
        """Row tiles, with the lower last one."""
        return ceil_div(self.workload.m, self.rows)

    @property
    def whole_tiles(self) -> int:
        """Row tiles of full height."""
        return self.workload.m // self.rows

    @property
    def edge_rows(self) -> int:
        """Rows of the lower last tile."""
        return self.workload.m % self.rows

    @property
    def line(self) -> int:
        """Elements of a cache line."""
        return self.target.line_bytes // 4

    @property
    def fetched(self) -> int:
        """Elements of the next panel that each step along k prefetches, 0 where none is worth it.

        A panel that comes from memory while its first tile is computed keeps that tile waiting; so the tiles
        of the panel before share it out. One row alone is as fast as memory anyway, and beside very many
        tiles the first hardly counts.
        """
        together = min(ceil_div(self.tiles, self.parts[1]), self.mc // self.rows)
        return ceil_div(self.width, together) if self.workload.m > 1 and together <= self.width else 0

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return self.workload.k * self.panels * self.width


def accumulators(target: Target) -> int:
    """How many accumulators fit beside the operands: with more, LLVM spills."""
    return target.vector_registers - 4


def even_height(rows: int, most: int) -> int:
    """The height of tiles of at most ``most`` that share ``rows`` out evenly."""
    return ceil_div(rows, ceil_div(rows, max(1, most)))
