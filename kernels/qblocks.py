"""Micro-kernels of integer matrix products on Arm: a block of sums in registers, by one of four instructions.

- ``pairwise``, base instruction set (seed 000): products of bytes into 16 bits (``smull``, ``umull``), added
  in pairs to sums of 32 bits (``sadalp``, ``uadalp``), reduced by ``addp`` at the end. ``chain`` products are
  added in 16 bits first (``smlal``, ``umlal``); the caller has proved that these do not overflow.
- ``lane``, base instruction set (seed 001): outer products of 16-bit numbers by ``smlal`` with a lane.
- ``dot``: ``sdot`` and ``udot`` by lane (``+dotprod``).
- ``matrix``: ``smmla`` and ``ummla``, products of 2x8 by 8x2 (``+i8mm``).

All but ``lane`` are of signed or of unsigned bytes. On 32-bit Arm there are ``pairwise`` and ``lane``. TVM
objects are Any.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import code_shape, tir, wrapping

QUAD = 4
"""Sums of 32 bits in one vector register."""


@dataclass(frozen=True)
class Rows:
    """Where a block finds its rows: element ``k`` of row ``r`` of step ``s`` is at
    ``at + s * step + r * pitch + k`` of ``buffer``."""

    buffer: Any
    at: Any
    pitch: int


@dataclass(frozen=True)
class Block(ABC):
    """``rows`` x ``columns`` sums. ``begin``, then ``step`` for each ``depth`` elements of k, then ``end``.

    A step reads ``rows`` x ``depth`` elements of the one operand as ``Rows`` says and the other's as
    ``weights_step`` orders them. ``arm32`` stands for a target of 32 bits.
    """

    rows: int
    columns: int
    signed: bool = True
    chain: int = 1
    arm32: bool = False
    name: ClassVar[str] = ""
    depth: ClassVar[int]
    """Elements of k in a step."""

    @property
    @abstractmethod
    def accumulators(self) -> int:
        """Vector registers that the sums take."""

    @property
    @abstractmethod
    def operands(self) -> int:
        """Vector registers that operands and products take beside the sums."""

    @property
    @abstractmethod
    def cycles(self) -> float:
        """Vector instructions of a step, in whole vectors: what a unit of 128 bits takes."""

    @property
    def dtype(self) -> str:
        """The type of both packed operands."""
        return "int8" if self.signed else "uint8"

    @property
    def panel(self) -> int:
        """Columns of a step's weights as they are stored."""
        return self.columns

    def weights_step(self, panel: Any) -> Any:
        """A numpy array (..., depth, self.panel) as its steps are stored: columns, each of ``depth``."""
        return panel.swapaxes(-1, -2)

    def of_rows(self, rows: int) -> Block:
        """The same block, ``rows`` high."""
        return replace(self, rows=rows)

    def begin(self, bias: list[Any]) -> Any:
        """Registers for the sums; ``bias`` is int32x4 of each group of four columns."""
        sums = T.alloc_buffer(
            (self.accumulators * QUAD,),
            "int32",
            scope="local",
            annotations={"disable_lower_builtin": True},  # see tir.registers
        )
        for at, value in enumerate(self.start(bias)):
            tir.store(sums, value, _quad(at))
        return sums

    def start(self, bias: list[Any]) -> list[Any]:
        """What the accumulators hold before the first step; nothing when that step sets them."""
        return bias * self.rows

    @property
    def first_apart(self) -> bool:
        """Whether the first step is to have code of its own, before the loop of the others."""
        return True

    @abstractmethod
    def step(self, sums: Any, rows: Rows, weights: Any, at: Any, first: bool) -> None:
        """Add the products of one step, whose weights are at ``at``; ``first`` is the one after ``begin``."""

    @abstractmethod
    def end(self, sums: Any, bias: list[Any]) -> list[list[Any]]:
        """The sums and the bias by row and by group of four columns, int32x4 each.

        Lanes beyond ``columns`` hold anything.
        """


class _Pairwise(Block):
    """A dot product of 16 bytes to each accumulator, which holds four parts of one sum."""

    name = "pairwise"
    depth = 16

    def start(self, bias: list[Any]) -> list[Any]:
        return []

    @property
    def accumulators(self) -> int:
        return self.rows * self.columns

    @property
    def operands(self) -> int:
        # The shorter side stays, an element of the other and its products pass. On 32-bit Arm half a
        # vector is half a register, and one product passes at a time.
        stay = min(self.rows, self.columns)
        return stay + 2 if self.arm32 else 2 * stay + 6

    @property
    def cycles(self) -> float:
        return self.accumulators * (3.0 if self.chain == 1 else 2.0)

    def step(self, sums: Any, rows: Rows, weights: Any, at: Any, first: bool) -> None:
        def data(row: int) -> list[Any]:
            return self._halves(rows.buffer, rows.at + row * rows.pitch)

        def filters(column: int) -> list[Any]:
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
        self, sums: Any, row: int, column: int, data: list[Any], weights: list[Any], first: bool
    ) -> None:
        low, high = (self._product(a, b) for a, b in zip(data, weights, strict=True))
        slot = _quad(row * self.columns + column)
        total = None if first else sums[slot]
        for part in [low + high] if self.chain == 2 else [low, high]:
            total = self._add(total, part)
        tir.store(sums, total, slot)

    def end(self, sums: Any, bias: list[Any]) -> list[list[Any]]:
        rows = []
        for row in range(self.rows):
            parts = [sums[_quad(row * self.columns + column)] for column in range(self.columns)]
            parts += [parts[-1]] * (-self.columns % QUAD)
            pairs = [self._fold(*parts[at : at + 2]) for at in range(0, len(parts), 2)]
            quads = [self._fold(*pairs[at : at + 2]) for at in range(0, len(pairs), 2)]
            rows.append([T.Bind(quad + start) for quad, start in zip(quads, bias, strict=True)])
        return rows

    def _order(self) -> None:
        """Let the next element pass only now where registers are few."""
        if self.arm32:
            code_shape.order()

    def _halves(self, buffer: Any, at: Any) -> list[Any]:
        if self.arm32:
            whole = T.Bind(buffer[tir.vector(at, 16)])
            return [_part(whole, half, 8) for half in (0, 8)]
        return [T.Bind(buffer[tir.vector(at + half, 8)]) for half in (0, 8)]

    def _product(self, one: Any, other: Any) -> Any:
        sign = "s" if self.signed else "u"
        name = f"llvm.arm.neon.vmull{sign}" if self.arm32 else f"llvm.aarch64.neon.{sign}mull"
        return _call(f"{'' if self.signed else 'u'}int16x8", f"{name}.v8i16", one, other)

    def _add(self, total: Any, part: Any) -> Any:
        """Pairs of ``part`` added to ``total``."""
        sign = "s" if self.signed else "u"
        if self.arm32 and total is not None:
            return _call("int32x4", f"llvm.arm.neon.vpadal{sign}.v4i32.v8i16", total, part)
        name = f"llvm.arm.neon.vpaddl{sign}" if self.arm32 else f"llvm.aarch64.neon.{sign}addlp"
        pairs = _call("int32x4", f"{name}.v4i32.v8i16", part)
        return pairs if total is None else total + pairs

    def _fold(self, one: Any, other: Any) -> Any:
        """Sums of neighbours, those of ``one`` first."""
        if not self.arm32:
            return _call("int32x4", "llvm.aarch64.neon.addp.v4i32", one, other)
        halves = [
            _call("int32x2", "llvm.arm.neon.vpadd.v2i32", *(_part(sums, at, 2) for at in (0, 2)))
            for sums in (one, other)
        ]
        return tirx.Shuffle(halves, [tir.index(lane) for lane in range(QUAD)])


class _Quads(Block):
    """Blocks whose accumulators hold four columns of one row."""

    @property
    def accumulators(self) -> int:
        return self.rows * self._quads

    @property
    def panel(self) -> int:
        return self._quads * QUAD

    @property
    def _quads(self) -> int:
        return -(-self.columns // QUAD)

    def end(self, sums: Any, bias: list[Any]) -> list[list[Any]]:
        slots = [sums[_quad(at)] for at in range(self.accumulators)]
        return [slots[at : at + self._quads] for at in range(0, self.accumulators, self._quads)]


class _Lane(_Quads):
    """Outer products of 16-bit numbers: a vector of four columns times one lane of a row's vector."""

    name = "lane"
    depth = 8

    @property
    def operands(self) -> int:
        # On 32-bit Arm the lanes of two rows share a vector. With less than five more LLVM copies and
        # spills (``bench.int8_blocks``).
        return self.rows // 2 + 5 if self.arm32 else self.rows + self._quads

    @property
    def cycles(self) -> float:
        return self.accumulators * self.depth / 2

    @property
    def dtype(self) -> str:
        return "int16"

    @property
    def first_apart(self) -> bool:
        # On 32 bits LLVM widens what the first one multiplies by itself, and sums lie where lanes should.
        return not self.arm32

    def weights_step(self, panel: Any) -> Any:
        return panel

    def step(self, sums: Any, rows: Rows, weights: Any, at: Any, first: bool) -> None:
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
                    self._add_product(sums, _quad(row * self._quads + quad), column, lane)

    def _half_step(self, sums: Any, rows: Rows, weights: Any, at: Any, start: int) -> None:
        """As ``step``, of the elements ``start`` to ``start + 4`` on 32-bit Arm.

        There lanes must be in the first four vectors: eight rows of four elements fill these.
        """
        data = []
        for row in range(self.rows):
            vector = rows.buffer[tir.vector(rows.at + row * rows.pitch + start, QUAD)]
            data.append(T.Bind(vector.astype("int16x4") if rows.buffer.dtype != "int16" else vector))
        for k in range(QUAD):
            whole = T.Bind(weights[tir.vector(at + (start + k) * self.panel, self.panel)])
            columns = [_part(whole, at, QUAD) for at in range(0, self.panel, QUAD)]
            for row in range(self.rows):
                lane = tirx.Shuffle([data[row]], [tir.index(k)] * QUAD)
                for quad, column in enumerate(columns):
                    self._add_product(sums, _quad(row * self._quads + quad), column, lane)
        code_shape.order()

    def _add_product(self, sums: Any, slot: Any, column: Any, lane: Any) -> None:
        product = column.astype("int32x4") * lane.astype("int32x4")
        # Winograd's sums may wrap (``qwinograd_neon_nest.py``).
        tir.store(sums, wrapping.added(sums[slot], product, QUAD), slot)


class _Dot(_Quads):
    """Dot products of four bytes: four columns' bytes times one lane, the four bytes of a row."""

    name = "dot"
    depth = 4

    @property
    def operands(self) -> int:
        return -(-self.rows // QUAD) + self._quads

    @property
    def cycles(self) -> float:
        return float(self.accumulators + self.rows % QUAD)  # rows beyond fours are spread one by one

    def step(self, sums: Any, rows: Rows, weights: Any, at: Any, first: bool) -> None:
        columns = [T.Bind(weights[tir.vector(at + quad * 16, 16)]) for quad in range(self._quads)]
        name = f"llvm.aarch64.neon.{'s' if self.signed else 'u'}dot.v4i32.v16i8"
        for row in range(self.rows):
            lane = self._lane(rows, row)
            for quad in range(self._quads):
                slot = _quad(row * self._quads + quad)
                tir.store(sums, _call("int32x4", name, sums[slot], columns[quad], lane), slot)

    def _lane(self, rows: Rows, row: int) -> Any:
        """The four bytes of a row, four times over; rows of a whole vector come from that vector."""
        whole = self.rows // QUAD * QUAD
        start = row // QUAD * QUAD if row < whole else row
        count = QUAD if row < whole else 1
        vector = rows.buffer[tir.vector(rows.at + start * rows.pitch, count * self.depth)]
        at = (row - start) * self.depth
        return tirx.Shuffle([vector] * QUAD, [tir.index(at + byte) for _ in range(QUAD) for byte in range(4)])


class _Matrix(Block):
    """Products of two rows and two columns of eight bytes each: four sums to an accumulator."""

    name = "matrix"
    depth = 8

    @property
    def accumulators(self) -> int:
        return -(-self.rows // 2) * (self.panel // 2)

    @property
    def operands(self) -> int:
        return 1 + self.panel // 2

    @property
    def cycles(self) -> float:
        return float(self.accumulators)

    @property
    def panel(self) -> int:
        return -(-self.columns // 2) * 2

    def start(self, bias: list[Any]) -> list[Any]:
        pairs = [
            tirx.Shuffle([bias[pair // 2]], [tir.index(pair % 2 * 2 + lane) for lane in (0, 1, 0, 1)])
            for pair in range(self.panel // 2)
        ]
        return pairs * -(-self.rows // 2)

    def step(self, sums: Any, rows: Rows, weights: Any, at: Any, first: bool) -> None:
        pairs = self.panel // 2
        columns = [T.Bind(weights[tir.vector(at + 16 * pair, 16)]) for pair in range(pairs)]
        name = f"llvm.aarch64.neon.{'s' if self.signed else 'u'}mmla.v4i32.v16i8"
        for top in range(0, self.rows, 2):
            data = T.Bind(self._two_rows(rows, top))
            for pair in range(pairs):
                slot = _quad(top // 2 * pairs + pair)
                tir.store(sums, _call("int32x4", name, sums[slot], data, columns[pair]), slot)

    def _two_rows(self, rows: Rows, top: int) -> Any:
        """Two rows' bytes; the last of an odd number twice."""
        if top + 1 < self.rows and rows.pitch == self.depth:
            return rows.buffer[tir.vector(rows.at + top * rows.pitch, 16)]
        one = rows.buffer[tir.vector(rows.at + top * rows.pitch, 8)]
        other = one if top + 1 == self.rows else rows.buffer[tir.vector(rows.at + (top + 1) * rows.pitch, 8)]
        return tirx.Shuffle([one, other], [tir.index(lane) for lane in range(16)])

    def end(self, sums: Any, bias: list[Any]) -> list[list[Any]]:
        pairs = self.panel // 2
        rows = []
        for row in range(self.rows):
            halves = [sums[_quad(row // 2 * pairs + pair)] for pair in range(pairs)]
            halves += [halves[-1]] * (pairs % 2)
            first = row % 2 * 2
            lanes = [tir.index(lane) for lane in (first, first + 1, first + 4, first + 5)]
            rows.append([T.Bind(tirx.Shuffle(halves[at : at + 2], lanes)) for at in range(0, len(halves), 2)])
        return rows


BLOCKS: dict[str, type[Block]] = {kind.name: kind for kind in (_Pairwise, _Lane, _Dot, _Matrix)}


def _quad(at: int) -> Any:
    return tir.vector(at * QUAD, QUAD)


def _part(vector: Any, start: int, lanes: int) -> Any:
    return T.Bind(tirx.Shuffle([vector], [tir.index(start + lane) for lane in range(lanes)]))


def _call(dtype: str, name: str, *arguments: Any) -> Any:
    return tirx.call_llvm_pure_intrin(dtype, name, *arguments)
