"""The kind ``pairwise`` of block: products of bytes, added in pairs (seed 000)."""

from __future__ import annotations

from kernels.emit import code_shape, tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.arm.blocks.block import QUAD, Block, Rows, call, lanes_of, quad_at


class Pairwise(Block):
    """A dot product of 16 bytes to each accumulator, which holds four parts of one sum."""

    name = "pairwise"
    depth = 16

    def start(self, starts: list[list[Vector]]) -> list[Vector]:
        """Nothing: the first step sets them."""
        return []

    @property
    def accumulators(self) -> int:
        """One for each sum."""
        return self.rows * self.columns

    @property
    def operands(self) -> int:
        """Of the side that stays, and of what passes."""
        # The shorter side stays, an element of the other and its products pass. On 32-bit Arm half a
        # vector is half a register, and one product passes at a time.
        stay = min(self.rows, self.columns)
        return stay + 2 if self.arm32 else 2 * stay + 6

    @property
    def cycles(self) -> float:
        """A product and an addition for each half of a vector; chained, one addition for both."""
        return self.accumulators * (3.0 if self.chain == 1 else 2.0)

    def step(self, sums: Buffer, rows: Rows, weights: Buffer, at: Index, first: bool) -> None:
        """Every product of a row and a column."""

        def data(row: int) -> list[Vector]:
            return self._halves(rows.buffer, rows.at + row * rows.pitch)

        def filters(column: int) -> list[Vector]:
            return self._halves(weights, at + 16 * column)

        if self.columns <= self.rows:
            stay = [filters(column) for column in range(self.columns)]
            for row in range(self.rows):
                passing = data(row)
                for column, there in enumerate(stay):
                    self._add_products(sums, row, column, passing, there, first)
                self._order()
        else:
            stay = [data(row) for row in range(self.rows)]
            for column in range(self.columns):
                passing = filters(column)
                for row, there in enumerate(stay):
                    self._add_products(sums, row, column, there, passing, first)
                self._order()

    def _add_products(
        self, sums: Buffer, row: int, column: int, data: list[Vector], weights: list[Vector], first: bool
    ) -> None:
        low, high = (self._product(a, b) for a, b in zip(data, weights, strict=True))
        slot = quad_at(row * self.columns + column)
        total = None if first else sums[slot]
        for part in [low + high] if self.chain == 2 else [low, high]:
            total = self._add(total, part)
        tir.store(sums, total, slot)

    def end(self, sums: Buffer, bias: list[Vector]) -> list[list[Vector]]:
        """The four parts of each sum added up, and the bias."""
        rows = []
        for row in range(self.rows):
            parts = [sums[quad_at(row * self.columns + column)] for column in range(self.columns)]
            parts += [parts[-1]] * (-self.columns % QUAD)
            pairs = [self._fold(*parts[at : at + 2]) for at in range(0, len(parts), 2)]
            quads = [self._fold(*pairs[at : at + 2]) for at in range(0, len(pairs), 2)]
            rows.append([T.Bind(quad + start) for quad, start in zip(quads, bias, strict=True)])
        return rows

    def _order(self) -> None:
        """Let the next element pass only now where registers are few."""
        if self.arm32:
            code_shape.order()

    def _halves(self, buffer: Buffer, at: Index) -> list[Vector]:
        if self.arm32:
            whole = T.Bind(buffer[tir.vector(at, 16)])
            return [lanes_of(whole, half, 8) for half in (0, 8)]
        return [T.Bind(buffer[tir.vector(at + half, 8)]) for half in (0, 8)]

    def _product(self, one: Vector, other: Vector) -> Vector:
        sign = "s" if self.signed else "u"
        name = f"llvm.arm.neon.vmull{sign}" if self.arm32 else f"llvm.aarch64.neon.{sign}mull"
        return call(f"{'' if self.signed else 'u'}int16x8", f"{name}.v8i16", one, other)

    def _add(self, total: Vector, part: Vector) -> Vector:
        """Pairs of ``part`` added to ``total``."""
        sign = "s" if self.signed else "u"
        if self.arm32 and total is not None:
            return call("int32x4", f"llvm.arm.neon.vpadal{sign}.v4i32.v8i16", total, part)
        name = f"llvm.arm.neon.vpaddl{sign}" if self.arm32 else f"llvm.aarch64.neon.{sign}addlp"
        pairs = call("int32x4", f"{name}.v4i32.v8i16", part)
        return pairs if total is None else total + pairs

    def _fold(self, one: Vector, other: Vector) -> Vector:
        """Sums of neighbours, those of ``one`` first."""
        if not self.arm32:
            return call("int32x4", "llvm.aarch64.neon.addp.v4i32", one, other)
        halves = [
            call("int32x2", "llvm.arm.neon.vpadd.v2i32", *(lanes_of(sums, at, 2) for at in (0, 2)))
            for sums in (one, other)
        ]
        return tirx.Shuffle(halves, [tir.index(lane) for lane in range(QUAD)])
