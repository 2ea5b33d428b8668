"""The micro-kernels of SConv: sums of outer products in vector registers, or in POWER10's matrix unit.

Section 5 of seed 003.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import ClassVar

from kernels.arithmetic import ceil_div
from kernels.emit import code_shape, machine, mma, tir
from kernels.emit.types import Buffer, Expr, Index, Vector
from kernels.target import Target


class VectorProducts:
    """``filters`` x ``vectors`` sums in ``sums``, of a broadcast filter by a vector of windows each.

    ``prefetches`` says whether what no hardware prefetcher finds is asked for, ``crowds`` whether LLVM
    spills sums that fill the registers where it starts loads early, and ``hides_loads`` whether arithmetic
    takes so long that loads from the second cache take no time beside it.
    """

    prefetches: ClassVar[bool] = True
    crowds: ClassVar[bool] = True
    hides_loads: ClassVar[bool] = True
    moves: ClassVar[int] = 1
    """Vectors that ``copy`` copies by one load and one store."""

    def __init__(self, weights: Buffer, filters: int, vectors: int, lanes: int) -> None:
        self.weights, self.filters, self.vectors, self.lanes = weights, filters, vectors, lanes
        self.sums = tir.registers(self.rows * vectors * lanes)

    @staticmethod
    def linked() -> AbstractContextManager[Expr]:
        """Within it products may be emitted."""
        return code_shape.linked()

    @staticmethod
    def step_cycles(target: Target, filters: int, vectors: int, together: bool) -> float:
        """One product of each sum; ``together`` as ``add`` has it."""
        return machine.step_cycles(target, filters, vectors, together=machine.paired(target))

    @property
    def rows(self) -> int:
        """Filters, filled up."""
        return self.filters

    def slot(self, i: int, j: int) -> Vector:
        """Where the sums of filter ``i`` and vector ``j`` are."""
        return tir.vector((i * self.vectors + j) * self.lanes, self.lanes)

    def begin(self) -> None:
        """What is in ``sums`` is where products are added to."""

    def add(self, weights: Index, source: Buffer, starts: list[Index], together: bool) -> None:
        """Products of the filters from element ``weights`` on and the windows at ``starts``.

        ``together`` says that these vectors lie one behind the other.
        """
        values = [source[tir.vector(at, self.lanes)] for at in starts]
        for i in range(self.filters):
            weight = tir.splat(self.weights[weights + i], self.lanes)
            for j in range(self.vectors):
                slot = self.slot(i, j)
                tir.store(self.sums, self.sums[slot] + weight * values[j], slot)

    def end(self) -> None:
        """The sums are in ``sums`` again."""

    @staticmethod
    def copy(source: Buffer, start: Index, target: Buffer, at: Index, elements: int) -> None:
        """Copy at most ``moves`` vectors of floats."""
        tir.store(target, source[tir.vector(start, elements)], tir.vector(at, elements))

    def resume(self, buffer: Buffer, at: Index) -> None:
        """Instead of ``begin``: go on with what ``keep`` has put there (``Plan.sums_apart``)."""
        raise NotImplementedError("these sums wait in the output")

    def keep(self, buffer: Buffer, at: Index) -> None:
        """Instead of ``end``: put the sums there, in whatever order ``resume`` reads them."""
        raise NotImplementedError("these sums wait in the output")


class MatrixProducts(VectorProducts):
    """The same in accumulators of 4x4 sums; filters are filled up to whole ones."""

    prefetches = False
    crowds = False
    hides_loads = False
    moves = 2

    def __init__(self, weights: Buffer, filters: int, vectors: int, lanes: int) -> None:
        super().__init__(weights, filters, vectors, lanes)
        self.accumulators = mma.Accumulators(self.rows, vectors)

    @staticmethod
    def linked() -> AbstractContextManager[Expr]:
        """Within it products may be emitted."""
        return mma.linked()

    @staticmethod
    def step_cycles(target: Target, filters: int, vectors: int, together: bool) -> float:
        """One product of each sum; ``together`` as ``add`` has it."""
        return mma.step_cycles(target, filters, vectors, together)

    @property
    def rows(self) -> int:
        """Filters, filled up."""
        return ceil_div(self.filters, mma.SIDE) * mma.SIDE

    def begin(self) -> None:
        """Sums go to the unit."""
        for i in range(self.filters, self.rows):
            for j in range(self.vectors):
                tir.store(self.sums, tir.zeros(self.lanes), self.slot(i, j))
        self.accumulators.load(self.sums)

    def add(self, weights: Index, source: Buffer, starts: list[Index], together: bool) -> None:
        """Products of the filters from element ``weights`` on and the windows at ``starts``."""
        self.accumulators.add(self.weights, weights, source, starts, together=together)

    def end(self) -> None:
        """And come back."""
        self.accumulators.store(self.sums)

    @staticmethod
    def copy(source: Buffer, start: Index, target: Buffer, at: Index, elements: int) -> None:
        """A pair of vectors by one load and one store."""
        if elements > mma.SIDE:
            mma.copy_pair(source, start, target, at)
        else:
            VectorProducts.copy(source, start, target, at, elements)

    def resume(self, buffer: Buffer, at: Index) -> None:
        """As they are in the unit."""
        self.accumulators.resume(buffer, at)

    def keep(self, buffer: Buffer, at: Index) -> None:
        """As they are in the unit."""
        self.accumulators.keep(buffer, at)
