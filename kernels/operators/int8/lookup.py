"""Any function of one quantized tensor's elements, as a table of its 256 values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from kernels.emit import tir
from kernels.emit.elements import each_vector
from kernels.emit.function import Function
from kernels.emit.tir import const, convert, of_type, reinterpret
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, PrimFunc, Vector
from kernels.emit.vectors import shuffle
from kernels.int8.hvx import instructions as hvx
from kernels.int8.hvx.tables import looked_up, rows_of
from kernels.int8.quantization import Quantization
from kernels.isa.arm import AARCH64
from kernels.isa.x86 import X86
from kernels.operators.int8.base import Array, QOperator, stored
from kernels.target import Target
from kernels.targets.x86_features import has
from kernels.workload.qconv2d import LIMITS, Byte

ROW = 16
"""Entries of the table that one instruction looks up in."""
ROWS = 256 // ROW


@dataclass(frozen=True)
class QLookup(QOperator):
    """``table[value - lowest value of dtype]`` for each element of a tensor of ``shape``.

    Raises ValueError for a table that is not 256 values of ``out_dtype``.
    """

    shape: tuple[int, ...]
    dtype: Byte
    out_dtype: Byte
    table: tuple[int, ...]

    def __post_init__(self) -> None:
        low, high = LIMITS[self.out_dtype]
        if len(self.table) != 256 or min(self.table) < low or max(self.table) > high:
            raise ValueError(f"a table has 256 values from {low} to {high}, got {len(self.table)} others")

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        data: Quantization,
        out: Quantization,
        function: Callable[[Array], Array],
    ) -> QLookup:
        """``function`` of float32 arrays, between the real numbers that ``data`` and ``out`` stand for."""
        values = out.quanta(function(data.real(data.all_quanta())))
        return cls(shape, data.dtype, out.dtype, tuple(int(value) for value in values))

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return self.shape

    @property
    def result_dtype(self) -> str:
        """Type of the result."""
        return self.out_dtype

    @property
    def clamp(self) -> tuple[int, int] | None:
        """(lowest, highest) where the table does nothing but clip to these, else None."""
        low, high = min(self.table), max(self.table)
        values = np.arange(256) + LIMITS[self.dtype][0]
        clips = self.dtype == self.out_dtype and np.array_equal(values.clip(low, high), self.table)
        return (low, high) if clips else None

    def reference(self, *inputs: Array) -> Array:
        """The result for one array of ``shape``."""
        table = np.array(self.table, self.out_dtype)
        result: Array = table[inputs[0].astype(np.int64) - LIMITS[self.dtype][0]]
        return result

    def constants(self) -> list[Array]:
        """The table, unless the function only clips: by the bits of the data, and as uint8."""
        if self.clamp:
            return []
        values = np.array(self.table, self.out_dtype).view(np.uint8)
        return [np.roll(values, LIMITS[self.dtype][0])]

    def build(self, target: Target, threads: int, name: str) -> PrimFunc:
        """As of any operator: a tensor, the table where there is one, and the result."""
        shape = stored(self.shape)
        # The table has no signs, so the tensors need none either.
        words = {"data": self.dtype, "out": self.out_dtype}
        if self.clamp:
            return self._clip(Function(name, dict.fromkeys(words, shape), words), target, threads)
        shapes = {"data": shape, "table": (256,), "out": shape}
        function = Function(name, shapes, {**words, "table": "uint8"})
        if hvx.has_hvx(target) and prod(shape) >= hvx.BYTES:
            with function as (data, table, out), tir.with_llvm(hvx.LLVM):
                rows = rows_of([hvx.read(table, at) for at in (0, hvx.BYTES)])
                each_vector(
                    prod(shape),
                    hvx.BYTES,
                    threads,
                    lambda at, _: hvx.write(out, looked_up(hvx.read(data, at), rows), at),
                )
            return function.result()
        with function as (data, table, out):
            lookup, lanes = _way(table, target)

            def emit(first: Index, width: int) -> None:
                at = tir.vector(first, width)
                index = convert(data[at], "uint8", width)
                tir.store(out, convert(lookup(index, width), self.out_dtype, width), at)

            each_vector(prod(shape), lanes, threads, emit)
        return function.result()

    def _clip(self, function: Function, target: Target, threads: int) -> PrimFunc:
        assert self.clamp is not None
        low, high = self.clamp
        with function as (data, out):

            def emit(first: Index, width: int) -> None:
                at = tir.vector(first, width)
                value = tirx.Min(data[at], const(high, self.dtype, width))
                tir.store(out, tirx.Max(value, const(low, self.dtype, width)), at)

            each_vector(prod(self.shape), target.lanes("uint8"), threads, emit)
        return function.result()


Lookup = Callable[[Vector, int], Vector]
"""(indices, lanes) -> the entries, both uint8."""


def _way(table: Buffer, target: Target) -> tuple[Lookup, int]:
    """How ``target`` looks up in ``table``, and how many lanes at a time."""
    if target.isa is X86 and has(target, "avx2"):
        return lambda index, lanes: (_by_rows if lanes == 32 else _gather)(table, index, lanes), 32
    if target.isa is AARCH64:
        return lambda index, lanes: (_by_four_rows if lanes == 16 else _gather)(table, index, lanes), 16
    return lambda index, lanes: _gather(table, index, lanes), 1


def _gather(table: Buffer, index: Vector, lanes: int) -> Vector:
    """One entry after another."""
    return table[convert(index, "int32", lanes)]


def _by_rows(table: Buffer, index: Vector, lanes: int) -> Vector:
    """32 entries by AVX2: in every row by the lower four bits, then one of two rows for each upper bit."""

    def intrinsic(name: str, *vectors: Vector) -> Vector:
        return T.Bind(tirx.call_llvm_pure_intrin(of_type("uint8", lanes), f"llvm.x86.avx2.{name}", *vectors))

    index = T.Bind(index)
    lower = T.Bind(tirx.bitwise_and(index, const(ROW - 1, "uint8", lanes)))
    entries = []
    for row in range(ROWS):
        half = T.Bind(table[tir.vector(row * ROW, ROW)])
        entries.append(intrinsic("pshuf.b", shuffle([half, half], range(lanes)), lower))
    words = T.Bind(reinterpret(index, "uint16", ROW))
    for bit in range(4, 8):
        # Blends look at the highest bit of each byte, so those that come from its neighbour do not matter.
        moved = tirx.shift_left(words, const(7 - bit, "uint16", ROW))
        mask = T.Bind(reinterpret(moved, "uint8", lanes))
        pairs = zip(entries[::2], entries[1::2], strict=True)
        entries = [intrinsic("pblendvb", zero, one, mask) for zero, one in pairs]
    return entries[0]


def _by_four_rows(table: Buffer, index: Vector, lanes: int) -> Vector:
    """16 entries by NEON: an instruction looks up in 64 of them and keeps what is not there."""

    def intrinsic(name: str, *vectors: Vector) -> Vector:
        name = f"llvm.aarch64.neon.{name}.v16i8"
        return T.Bind(tirx.call_llvm_pure_intrin(of_type("uint8", lanes), name, *vectors))

    rows = [table[tir.vector(row * ROW, ROW)] for row in range(ROWS)]
    result = intrinsic("tbl4", *rows[:4], index)
    for first in range(4, ROWS, 4):
        rest = index - const(first * ROW, "uint8", lanes)
        result = intrinsic("tbx4", result, *rows[first : first + 4], rest)
    return result
