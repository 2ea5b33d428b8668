"""POWER10's matrix unit: sums of outer products of four filters and four windows, 4x4 an accumulator.

Section 5.1 of seed 003. A step multiplies single floats, four bytes or two int16 of each filter and window.
TVM has no words for 512-bit accumulators, so small functions in LLVM's language are linked into the
kernel, where TVM inlines them; after that LLVM keeps every accumulator that is only touched by them in a
register of the unit.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index
from kernels.target import Target

NAME = "mma"
"""What ``Target.matrix`` says of a processor that has it."""
SIDE = 4
"""Rows and columns of an accumulator."""
PIPES = 2
"""Outer products the unit starts a cycle (LLVM's PPCScheduleP10.td: two MM pipes)."""

STEPS = {"float32": "xvf32gerpp", "uint8": "xvi8ger4pp", "int16": "xvi16ger2pp"}
"""The instruction of a step by the type of the columns. Bytes are signed in rows, unsigned in columns."""

_ROWS = range(SIDE)
_FOUR = "{ " + ", ".join(["<16 x i8>"] * SIDE) + " }"
_TWO = "{ <16 x i8>, <16 x i8> }"
_LINES = [
    "declare <512 x i1> @llvm.ppc.mma.assemble.acc(<16 x i8>, <16 x i8>, <16 x i8>, <16 x i8>)",
    f"declare {_FOUR} @llvm.ppc.mma.disassemble.acc(<512 x i1>)",
    "declare <256 x i1> @llvm.ppc.vsx.lxvp(ptr)",
    f"declare {_TWO} @llvm.ppc.vsx.disassemble.pair(<256 x i1>)",
    "declare <512 x i1> @llvm.ppc.mma.STEP(<512 x i1>, <16 x i8>, <16 x i8>)",
    "define void @tilefleet_mma_load(ptr %sum, ptr %rows, i64 %pitch) {",
    *(
        line
        for i in _ROWS
        for line in (
            f"  %at{i} = mul i64 %pitch, {i}",
            f"  %p{i} = getelementptr i8, ptr %rows, i64 %at{i}",
            f"  %r{i} = load <16 x i8>, ptr %p{i}, align 16",
        )
    ),
    "  %new = call <512 x i1> @llvm.ppc.mma.assemble.acc("
    + ", ".join(f"<16 x i8> %r{i}" for i in reversed(_ROWS))
    + ")",
    "  store <512 x i1> %new, ptr %sum, align 16",
    "  ret void",
    "}",
    "define void @tilefleet_mma_add(ptr %sum, ptr %rows, ptr %columns) {",
    "  %old = load <512 x i1>, ptr %sum, align 16",
    "  %a = load <16 x i8>, ptr %rows, align 4",
    "  %b = load <16 x i8>, ptr %columns, align 4",
    "  %new = call <512 x i1> @llvm.ppc.mma.STEP(<512 x i1> %old, <16 x i8> %a, <16 x i8> %b)",
    "  store <512 x i1> %new, ptr %sum, align 16",
    "  ret void",
    "}",
    "define void @tilefleet_mma_add_pair(ptr %sum0, ptr %sum1, ptr %rows, ptr %columns) {",
    "  %a = load <16 x i8>, ptr %rows, align 4",
    "  %pair = call <256 x i1> @llvm.ppc.vsx.lxvp(ptr %columns)",
    f"  %both = call {_TWO} @llvm.ppc.vsx.disassemble.pair(<256 x i1> %pair)",
    *(
        line
        for j in range(2)
        for line in (
            f"  %old{j} = load <512 x i1>, ptr %sum{j}, align 16",
            f"  %b{j} = extractvalue {_TWO} %both, {j}",
            f"  %new{j} = call <512 x i1> @llvm.ppc.mma.STEP("
            f"<512 x i1> %old{j}, <16 x i8> %a, <16 x i8> %b{j})",
            f"  store <512 x i1> %new{j}, ptr %sum{j}, align 16",
        )
    ),
    "  ret void",
    "}",
    "declare void @llvm.ppc.vsx.stxvp(<256 x i1>, ptr)",
    "define void @tilefleet_mma_copy_pair(ptr %to, ptr %from) {",
    "  %pair = call <256 x i1> @llvm.ppc.vsx.lxvp(ptr %from)",
    "  call void @llvm.ppc.vsx.stxvp(<256 x i1> %pair, ptr %to)",
    "  ret void",
    "}",
    "define void @tilefleet_mma_move(ptr %to, ptr %from) {",
    "  %all = load <512 x i1>, ptr %from, align 16",
    "  store <512 x i1> %all, ptr %to, align 16",
    "  ret void",
    "}",
    "define void @tilefleet_mma_store(ptr %sum, ptr %rows, i64 %pitch) {",
    "  %old = load <512 x i1>, ptr %sum, align 16",
    f"  %all = call {_FOUR} @llvm.ppc.mma.disassemble.acc(<512 x i1> %old)",
    *(
        line
        for i in _ROWS
        for line in (
            f"  %r{i} = extractvalue {_FOUR} %all, {i}",
            f"  %at{i} = mul i64 %pitch, {i}",
            f"  %p{i} = getelementptr i8, ptr %rows, i64 %at{i}",
            f"  store <16 x i8> %r{i}, ptr %p{i}, align 16",
        )
    ),
    "  ret void",
    "}",
]
_LLVM = "\n".join(_LINES)


def linked(dtype: str = "float32") -> AbstractContextManager[Expr]:
    """Within it, what is emitted may use Accumulators whose columns are of ``dtype``."""
    return tir.with_llvm(_LLVM.replace("STEP", STEPS[dtype]))


def step_cycles(target: Target, rows: int, vectors: int, together: bool = False) -> float:
    """One step of a micro-kernel: the outer product of ``rows`` elements and ``vectors`` vectors.

    Of vectors that lie ``together``, one behind the other, a load brings two.
    """
    squares = ceil_div(rows, SIDE)
    loads = squares + (ceil_div(vectors, 2) if together else vectors)
    return max(squares * vectors / PIPES, loads / target.loads_per_cycle)


def copy_pair(source: Buffer, start: Index, target: Buffer, at: Index) -> None:
    """Copy two vectors at once."""
    _call("copy_pair", _address(target, at), _address(source, start))


class Accumulators:
    """Sums of ``rows`` x ``vectors`` * SIDE numbers of 32 bits in the unit; ``rows`` is a multiple of SIDE.

    ``load`` and ``store`` exchange them with a buffer of ``tir.registers``, row by row.
    """

    def __init__(self, rows: int, vectors: int, dtype: str = "float32") -> None:
        self._vectors = vectors
        self._blocks = [(i, j) for i in range(0, rows, SIDE) for j in range(vectors)]
        self._sums = tir.registers(rows * vectors * SIDE, dtype)

    def load(self, sums: Buffer) -> None:
        """Take the sums from there."""
        self._exchange("load", sums)

    def add(
        self,
        rows: Buffer,
        rows_at: Index,
        columns: Buffer,
        columns_at: list[Index],
        pitch: int = SIDE,
        together: bool = False,
    ) -> None:
        """Add the outer product of the rows' elements from ``rows_at`` and the vectors of ``columns``.

        Each four rows lie side by side, ``pitch`` elements from the four before. Of vectors that lie
        ``together``, one behind the other, two are loaded at once (``lxvp``).
        """
        for i, j in self._blocks:
            row = _address(rows, rows_at + i // SIDE * pitch)
            column = _address(columns, columns_at[j])
            if not together or j ^ 1 == self._vectors:
                _call("add", self._accumulator(i, j), row, column)
            elif j % 2 == 0:
                _call("add_pair", self._accumulator(i, j), self._accumulator(i, j + 1), row, column)

    def resume(self, buffer: Buffer, at: Index) -> None:
        """Take the sums from where ``keep`` has put them."""
        for place, (i, j) in enumerate(self._blocks):
            _call("move", self._accumulator(i, j), _address(buffer, at + place * SIDE * SIDE))

    def keep(self, buffer: Buffer, at: Index) -> None:
        """Put the sums there as they are, an accumulator behind the other: not row by row."""
        for place, (i, j) in enumerate(self._blocks):
            _call("move", _address(buffer, at + place * SIDE * SIDE), self._accumulator(i, j))

    def store(self, sums: Buffer) -> None:
        """Put the sums there."""
        self._exchange("store", sums)

    def _exchange(self, way: str, sums: Buffer) -> None:
        pitch = tirx.const(self._vectors * SIDE * 4, "int64")
        for i, j in self._blocks:
            _call(way, self._accumulator(i, j), _address(sums, (i * self._vectors + j) * SIDE), pitch)

    def _accumulator(self, i: int, j: int) -> Expr:
        return _address(self._sums, (i * self._vectors + j * SIDE) * SIDE)


def _call(name: str, *arguments: Expr) -> None:
    T.evaluate(tirx.call_extern("void", f"tilefleet_mma_{name}", *arguments))


def _address(buffer: Buffer, at: Index) -> Expr:
    return tirx.address_of(tirx.BufferLoad(buffer, [tir.index(at)]))
