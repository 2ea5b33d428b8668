"""The kind ``dot`` of block: dot products of four bytes."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.arm.blocks.block import QUAD, Quads, Rows, call, quad_at


class Dot(Quads):
    """Dot products of four bytes: four columns' bytes times one lane, the four bytes of a row."""

    name = "dot"
    depth = 4

    @property
    def operands(self) -> int:
        """Of rows, four to a vector, and columns."""
        return ceil_div(self.rows, QUAD) + self._quads

    @property
    def cycles(self) -> float:
        """A product for each accumulator."""
        return float(self.accumulators + self.rows % QUAD)  # rows beyond fours are spread one by one

    def step(self, sums: Buffer, rows: Rows, weights: Buffer, at: Index, first: bool) -> None:
        """Every product of a row's lane and four columns."""
        columns = [T.Bind(weights[tir.vector(at + quad * 16, 16)]) for quad in range(self._quads)]
        name = f"llvm.aarch64.neon.{'s' if self.signed else 'u'}dot.v4i32.v16i8"
        for row in range(self.rows):
            lane = self._lane(rows, row)
            for quad in range(self._quads):
                slot = quad_at(row * self._quads + quad)
                tir.store(sums, call("int32x4", name, sums[slot], columns[quad], lane), slot)

    def _lane(self, rows: Rows, row: int) -> Vector:
        """The four bytes of a row, four times over; rows of a whole vector come from that vector."""
        whole = self.rows // QUAD * QUAD
        start = row // QUAD * QUAD if row < whole else row
        count = QUAD if row < whole else 1
        vector = rows.buffer[tir.vector(rows.at + start * rows.pitch, count * self.depth)]
        at = (row - start) * self.depth
        return tirx.Shuffle([vector] * QUAD, [tir.index(at + byte) for _ in range(QUAD) for byte in range(4)])
