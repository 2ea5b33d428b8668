"""The kind ``matrix`` of block: products of small matrices of bytes."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.arm.blocks.block import Block, Rows, call, quad_at


class Matrix(Block):
    """Products of two rows and two columns of eight bytes each: four sums to an accumulator."""

    name = "matrix"
    depth = 8

    @property
    def accumulators(self) -> int:
        """One for two rows by two columns."""
        return ceil_div(self.rows, 2) * (self.panel // 2)

    @property
    def operands(self) -> int:
        """Two rows, and all columns."""
        return 1 + self.panel // 2

    @property
    def cycles(self) -> float:
        """A product for each accumulator."""
        return float(self.accumulators)

    @property
    def panel(self) -> int:
        """Columns, filled up to pairs."""
        return ceil_div(self.columns, 2) * 2

    def start(self, starts: list[list[Vector]]) -> list[Vector]:
        """That of each pair of columns, twice; the same for all rows."""
        pairs = [
            tirx.Shuffle([starts[0][pair // 2]], [tir.index(pair % 2 * 2 + lane) for lane in (0, 1, 0, 1)])
            for pair in range(self.panel // 2)
        ]
        return pairs * ceil_div(self.rows, 2)

    def step(self, sums: Buffer, rows: Rows, weights: Buffer, at: Index, first: bool) -> None:
        """Every product of two rows and two columns."""
        pairs = self.panel // 2
        columns = [T.Bind(weights[tir.vector(at + 16 * pair, 16)]) for pair in range(pairs)]
        name = f"llvm.aarch64.neon.{'s' if self.signed else 'u'}mmla.v4i32.v16i8"
        for top in range(0, self.rows, 2):
            data = T.Bind(self._two_rows(rows, top))
            for pair in range(pairs):
                slot = quad_at(top // 2 * pairs + pair)
                tir.store(sums, call("int32x4", name, sums[slot], data, columns[pair]), slot)

    def _two_rows(self, rows: Rows, top: int) -> Vector:
        """Two rows' bytes; the last of an odd number twice."""
        if top + 1 < self.rows and rows.pitch == self.depth:
            return rows.buffer[tir.vector(rows.at + top * rows.pitch, 16)]
        one = rows.buffer[tir.vector(rows.at + top * rows.pitch, 8)]
        other = one if top + 1 == self.rows else rows.buffer[tir.vector(rows.at + (top + 1) * rows.pitch, 8)]
        return tirx.Shuffle([one, other], [tir.index(lane) for lane in range(16)])

    def end(self, sums: Buffer, bias: list[Vector]) -> list[list[Vector]]:
        """Rows put together from halves of accumulators."""
        pairs = self.panel // 2
        rows = []
        for row in range(self.rows):
            halves = [sums[quad_at(row // 2 * pairs + pair)] for pair in range(pairs)]
            halves += [halves[-1]] * (pairs % 2)
            first = row % 2 * 2
            lanes = [tir.index(lane) for lane in (first, first + 1, first + 4, first + 5)]
            rows.append([T.Bind(tirx.Shuffle(halves[at : at + 2], lanes)) for at in range(0, len(halves), 2)])
        return rows
