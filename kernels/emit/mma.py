"""POWER10's matrix unit: sums of outer products of four filters and four windows, 4x4 an accumulator.

Section 5.1 of seed 003. A step multiplies single floats, four bytes or two int16 of each filter and window.
TVM has no words for 512-bit accumulators, so three small functions in LLVM's language are linked into the
kernel, where TVM inlines them; after that LLVM keeps every accumulator that is only touched by them in a
register of the unit.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels.arithmetic import ceil_div
from kernels.emit import tir
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
_LINES = [
    "declare <512 x i1> @llvm.ppc.mma.assemble.acc(<16 x i8>, <16 x i8>, <16 x i8>, <16 x i8>)",
    f"declare {_FOUR} @llvm.ppc.mma.disassemble.acc(<512 x i1>)",
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


def step_cycles(target: Target, rows: int, vectors: int) -> float:
    """One step of a micro-kernel: the outer product of ``rows`` elements and ``vectors`` vectors."""
    squares = ceil_div(rows, SIDE)
    return max(squares * vectors / PIPES, (squares + vectors) / target.loads_per_cycle)


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
        self, rows: Buffer, rows_at: Index, columns: Buffer, columns_at: list[Index], pitch: int = SIDE
    ) -> None:
        """Add the outer product of the rows' elements from ``rows_at`` and the vectors of ``columns``.

        Each four rows lie side by side, ``pitch`` elements from the four before.
        """
        for i, j in self._blocks:
            place = rows_at + i // SIDE * pitch
            _call("add", self._accumulator(i, j), _address(rows, place), _address(columns, columns_at[j]))

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
