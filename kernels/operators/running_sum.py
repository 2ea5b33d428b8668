"""CumSum and CumProd: each element is the sum or product of those up to it along an axis, in their order."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, PrimFunc
from kernels.emit.wraps import combined
from kernels.operators.wide import lanes_of

SUMS = 8
"""So many go on side by side, as each addition waits for the one before it."""


@dataclass(frozen=True)
class RunningSum:
    """Along the middle axis of ``outer`` x ``extent`` x ``inner`` elements; ``reverse`` begins at the end.

    Where it is ``exclusive`` an element is not part of its own sum. All are products where it is ``product``.
    """

    outer: int
    extent: int
    inner: int
    dtype: str
    exclusive: bool = False
    reverse: bool = False
    product: bool = False


def build_running_sum(it: RunningSum, name: str) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are input and output."""
    shape = (it.outer, it.extent, it.inner)
    function = Function(name, {"data": shape, "out": shape}, {"data": it.dtype, "out": it.dtype})
    with function as (data, out):
        if it.inner == 1:
            _emit_lines(it, data, out)
        else:
            _emit_columns(it, data, out)
    return function.result()


def _emit_lines(it: RunningSum, data: Buffer, out: Buffer) -> None:
    """Sums along the last axis, of several lines at a time; the last lines overlap those before."""
    lines = min(SUMS, it.outer)
    with tir.loop(ceil_div(it.outer, lines)) as group:
        first = T.Bind(tir.least(group * lines, it.outer - lines))
        _emit_sums(it, data, out, [(first + line) * it.extent for line in range(lines)], 1)


def _emit_columns(it: RunningSum, data: Buffer, out: Buffer) -> None:
    """Sums along another axis, of several vectors of columns at a time, which may overlap likewise."""
    width = min(lanes_of(it.dtype), 1 << (it.inner.bit_length() - 1))
    vectors = ceil_div(it.inner, width)
    together = min(SUMS, vectors)
    with tir.loop(it.outer) as block, tir.loop(ceil_div(vectors, together)) as group:
        columns = [
            T.Bind(tir.least((group * together + vector) * width, it.inner - width))
            for vector in range(together)
        ]
        base = T.Bind(block * (it.extent * it.inner))
        _emit_sums(it, data, out, [base + column for column in columns], width)


def _emit_sums(it: RunningSum, data: Buffer, out: Buffer, starts: list[Index], width: int) -> None:
    """Vectors of ``width`` sums, each from one of ``starts`` on."""
    sums = tir.registers(len(starts) * width, it.dtype)
    slots = [tir.vector(number * width, width) for number in range(len(starts))]
    for slot in slots:
        tir.store(sums, tir.splat(tirx.const(int(it.product), it.dtype), width), slot)
    with tir.loop(it.extent) as turn:
        step = T.Bind((it.extent - 1 - turn if it.reverse else turn) * it.inner)
        for start, slot in zip(starts, slots, strict=True):
            at = tir.vector(start + step, width)
            if it.exclusive:
                tir.store(out, sums[slot], at)
            tir.store(sums, combined(tirx.Mul if it.product else tirx.Add, sums[slot], data[at]), slot)
            if not it.exclusive:
                tir.store(out, sums[slot], at)
