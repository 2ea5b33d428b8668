"""Between floats and bytes that lie in the same order: ONNX's QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from math import prod

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.elements import each_vector, threads_for
from kernels.emit.function import Function
from kernels.emit.tir import const, convert
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, PrimFunc, Vector
from kernels.int8.hvx import instructions as hvx
from kernels.int8.hvx.border import SCALES, ends_of, estimate, floats_of, is_above, numbers, packed
from kernels.int8.hvx.tables import words_looked_up
from kernels.int8.quantization import Quantization
from kernels.int8.saturate import inside, saturated
from kernels.isa.registry import isa_of
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS

_BY_ARITHMETIC = 8
"""Elements at a time where no instruction rounds: LLVM takes a minute for a vector of Hexagon's."""


def build_quantize(
    shape: tuple[int, ...], code: Quantization, target: Target, threads: int, name: str
) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are floats and bytes, both of ``shape``.

    Quotients are rounded to the nearest, ties to even; what is no number becomes the least byte.
    """
    low, high = LIMITS[code.dtype]
    function = Function(name, {"data": shape, "out": shape}, {"out": code.dtype})
    if _by_bits(shape, target) and SCALES[0] < code.scale < SCALES[1]:
        ends = ends_of(code)
        with function as (data, out), tir.with_llvm(hvx.LLVM + ends.llvm):
            rows = ends.rows()
            each_vector(
                prod(shape), hvx.BYTES, threads, lambda at, _: _quantize_bits(data, out, at, code, rows)
            )
        return function.result()
    with function as (data, out):

        def emit(first: Index, width: int) -> None:
            def constant(value: float) -> Vector:
                return tir.splat(tir.number(value), width)

            at = tir.vector(first, width)
            # Limited before the zero is added: the limits are whole, so that rounding later is the same.
            value = data[at] / constant(code.scale)
            value = inside(value, constant(low - code.zero), constant(high - code.zero))
            value = convert(tirx.nearbyint(value), "int32", width) + const(code.zero, lanes=width)
            tir.store(out, saturated(value, code.dtype, (low, high), width), at)

        by_arithmetic = not isa_of(target.triple).rounds_floats
        width = _BY_ARITHMETIC if by_arithmetic else target.lanes("uint8")
        each_vector(prod(shape), width, threads, emit)
    return function.result()


def build_dequantize(
    shape: tuple[int, ...], code: Quantization, target: Target, threads: int, name: str
) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are bytes and floats, both of ``shape``."""
    function = Function(name, {"data": shape, "out": shape}, {"data": code.dtype})
    if _by_bits(shape, target):
        floats = floats_of(code)
        with function as (data, out), tir.with_llvm(hvx.LLVM + floats.llvm):
            rows = floats.rows()
            each_vector(prod(shape), hvx.BYTES, threads, lambda at, _: _floats_of_bits(data, out, at, rows))
        return function.result()
    with function as (data, out):

        def emit(first: Index, width: int) -> None:
            at = tir.vector(first, width)
            value = convert(data[at], "int32", width) - const(code.zero, lanes=width)
            value = convert(value, tir.F32, width) * tir.splat(tir.number(code.scale), width)
            tir.store(out, value, at)

        each_vector(prod(shape), target.lanes("uint8"), threads, emit)
    return function.result()


def _by_bits(shape: tuple[int, ...], target: Target) -> bool:
    """Whether HVX computes it: there are no smaller vectors."""
    return hvx.has_hvx(target) and prod(shape) >= hvx.BYTES


def _quantize_bits(data: Buffer, out: Buffer, at: Index, code: Quantization, ends: list[Vector]) -> None:
    floats = [numbers(hvx.read(data, at + part * hvx.WORDS)) for part in range(hvx.BYTES // hvx.WORDS)]
    least = [estimate(bits, code) for bits in floats]
    ends = words_looked_up(packed(least), ends)
    above = [is_above(bits, end) for bits, end in zip(floats, ends, strict=True)]
    result = packed([hvx.words("vaddw", one, more) for one, more in zip(least, above, strict=True)])
    hvx.write(out, result if LIMITS[code.dtype][0] == 0 else hvx.flipped(result), at)


def _floats_of_bits(data: Buffer, out: Buffer, at: Index, rows: list[Vector]) -> None:
    for part, value in enumerate(words_looked_up(hvx.read(data, at), rows)):
        hvx.write(out, value, at + part * hvx.WORDS)


def build_dequantize_sums(
    shape: tuple[int, ...], scales: int, target: Target, threads: int, name: str
) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are int32 sums, float32 scales, and floats.

    Sums and floats are of ``shape``; there are as many ``scales`` as its last axis is long, or one.
    """
    shapes = {"data": shape, "scale": (scales,), "out": shape}
    function = Function(name, shapes, {"data": "int32"})
    lanes, elements = target.lanes(), prod(shape)
    with function as (data, scale, out):

        def emit(first: Index, factor: Vector, width: int) -> None:
            at = tir.vector(first, width)
            tir.store(out, convert(data[at], tir.F32, width) * factor, at)

        if scales == 1:
            each_vector(
                elements, lanes, threads, lambda first, width: emit(first, tir.splat(scale[0], width), width)
            )
        else:
            with tir.loop(elements // scales, threads_for(elements, threads)) as row:
                width = min(lanes, 1 << (scales.bit_length() - 1))
                with T.serial(0, ceil_div(scales, width)) as turn:
                    at = T.Bind(tir.least(turn * width, scales - width))
                    emit(row * scales + at, scale[tir.vector(at, width)], width)
    return function.result()
