"""The kind ``lane`` of block: outer products of words (seed 001)."""

from __future__ import annotations

from kernels.emit import code_shape, tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8 import wrapping
from kernels.int8.arm.blocks.block import QUAD, Quads, Rows, lanes_of, quad_at
from kernels.kernel import Array


class Lane(Quads):
    """Outer products of 16-bit numbers: a vector of four columns times one lane of a row's vector."""

    name = "lane"
    depth = 8

    @property
    def operands(self) -> int:
        """Of rows and columns."""
        # On 32-bit Arm the lanes of two rows share a vector. With less than five more LLVM copies and
        # spills.
        return self.rows // 2 + 5 if self.arm32 else self.rows + self._quads

    @property
    def cycles(self) -> float:
        """Products of half a vector each."""
        return self.accumulators * self.depth / 2

    @property
    def dtype(self) -> str:
        """Words."""
        return "int16"

    @property
    def first_apart(self) -> bool:
        """Not on 32-bit Arm."""
        # On 32 bits LLVM widens what the first one multiplies by itself, and sums lie where lanes should.
        return not self.arm32

    def weights_step(self, panel: Array) -> Array:
        """As they are: rows of columns."""
        return panel

    def step(self, sums: Buffer, rows: Rows, weights: Buffer, at: Index, first: bool) -> None:
        """Outer products, one element of k after the other."""
        if self.arm32:
            for start in range(0, self.depth, QUAD):
                self._half_step(sums, rows, weights, at, start)
            return
        data = []
        for row in range(self.rows):
            vector = rows.buffer[tir.vector(rows.at + row * rows.pitch, self.depth)]
            data.append(T.Bind(vector.astype("int16x8") if rows.buffer.dtype != "int16" else vector))
        for k in range(self.depth):
            for quad in range(self._quads):
                column = T.Bind(weights[tir.vector(at + k * self.panel + quad * QUAD, QUAD)])
                for row in range(self.rows):
                    lane = tirx.Shuffle([data[row]], [tir.index(k)] * QUAD)
                    self._add_product(sums, quad_at(row * self._quads + quad), column, lane)

    def _half_step(self, sums: Buffer, rows: Rows, weights: Buffer, at: Index, start: int) -> None:
        """As ``step``, of the elements ``start`` to ``start + 4`` on 32-bit Arm.

        There lanes must be in the first four vectors: eight rows of four elements fill these.
        """
        data = []
        for row in range(self.rows):
            vector = rows.buffer[tir.vector(rows.at + row * rows.pitch + start, QUAD)]
            data.append(T.Bind(vector.astype("int16x4") if rows.buffer.dtype != "int16" else vector))
        for k in range(QUAD):
            whole = T.Bind(weights[tir.vector(at + (start + k) * self.panel, self.panel)])
            columns = [lanes_of(whole, at, QUAD) for at in range(0, self.panel, QUAD)]
            for row in range(self.rows):
                lane = tirx.Shuffle([data[row]], [tir.index(k)] * QUAD)
                for quad, column in enumerate(columns):
                    self._add_product(sums, quad_at(row * self._quads + quad), column, lane)
        code_shape.order()

    def _add_product(self, sums: Buffer, slot: Vector, column: Vector, lane: Vector) -> None:
        product = column.astype("int32x4") * lane.astype("int32x4")
        # Winograd's sums may wrap (``winograd/points.py``).
        tir.store(sums, wrapping.added(sums[slot], product, QUAD), slot)
