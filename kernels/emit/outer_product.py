"""The micro-kernel of matrix products: sums of outer products, broadcasts times vectors.

Section 5.2 of seed 003. What it multiplies may lie anyhow: callers say how an element and a vector are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Expr, Index, Vector

Read = Callable[[int, Index], Vector]
"""(row or first column of the block, place along k) -> an element, or a vector of neighbouring columns."""


class Sums:
    """``rows`` x ``columns`` sums in registers, in vectors of ``lanes`` columns, the last perhaps partial.

    ``chains`` sets of them take turns along k, as few sums alone cannot hide the latency of a multiply-add.
    """

    def __init__(self, rows: int, columns: int, lanes: int, chains: int = 1) -> None:
        self._lanes, self._columns, self._chains = lanes, columns, chains
        self.cells = [(row, start) for row in range(rows) for start in range(0, columns, lanes)]
        self._slots = {cell: slot * lanes for slot, cell in enumerate(self.cells)}
        self._registers = tir.registers(chains * len(self.cells) * lanes)

    def count(self, start: int) -> int:
        """How many columns the vector from ``start`` has."""
        return min(self._lanes, self._columns - start)

    def begin(self, value: Callable[[int, int], Vector]) -> None:
        """Let the sums start from ``value(row, start)``."""
        for cell in self.cells:
            tir.store(self._registers, value(*cell), self._at(cell))

    def add(
        self,
        first: Index,
        depth: Index,
        element: Read,
        vector: Read,
        beside: Callable[[Index], None] | None = None,
    ) -> None:
        """Add the outer products of places ``first`` to ``first + depth`` along k.

        ``beside`` emits what else is to be done at each turn, which is a step for every chain.
        """
        for chain in range(1, self._chains):
            for cell in self.cells:
                tir.store(self._registers, tir.zeros(self._lanes), self._at(cell, chain))
        whole = depth // self._chains
        with T.serial(0, whole) as turn:
            if beside is not None:
                beside(turn)
            for chain in range(self._chains):
                self._step(first + turn * self._chains + chain, chain, element, vector)
        if self._chains > 1:
            with T.serial(whole * self._chains, depth) as last:
                self._step(first + last, 0, element, vector)
            for chain in range(1, self._chains):
                for cell in self.cells:
                    total = self._registers[self._at(cell)] + self._registers[self._at(cell, chain)]
                    tir.store(self._registers, total, self._at(cell))

    def add_by_lanes(self, depth: int, elements: Read, vector: Read) -> None:
        """Add the outer products of the first ``depth`` places along k, a multiple of the lanes.

        ``elements(row, at)`` is the vector of a row's elements from ``at`` on: one load brings as many as it
        has, where an instruction multiplies by a lane of a register (Arm).
        """
        lanes = self._lanes
        with T.serial(0, depth // lanes) as turn:
            at = T.Bind(turn * lanes)
            loaded = {row: T.Bind(elements(row, at)) for row, start in self.cells if start == 0}
            for lane in range(lanes):
                for row, start in self.cells:
                    element = tirx.Shuffle([loaded[row]], [tir.index(lane)] * lanes)
                    slot = self._at((row, start))
                    product = element * vector(start, at + lane)
                    tir.store(self._registers, self._registers[slot] + product, slot)

    def values(self) -> Iterator[tuple[int, int, Vector]]:
        """(row, first column, the vector of sums)."""
        for row, start in self.cells:
            yield row, start, self._registers[self._at((row, start))]

    def _step(self, at: Index, chain: int, element: Read, vector: Read) -> None:
        for row, start in self.cells:
            slot = self._at((row, start), chain)
            product = tir.splat(element(row, at), self._lanes) * vector(start, at)
            tir.store(self._registers, self._registers[slot] + product, slot)

    def _at(self, cell: tuple[int, int], chain: int = 0) -> Expr:
        return tir.vector(chain * len(self.cells) * self._lanes + self._slots[cell], self._lanes)
