"""Floats as bytes whose scale and zero point come of their own range: ONNX's DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.open_rows import held, quotient
from kernels.emit.tir import convert
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Expr, Index, PrimFunc, Vector
from kernels.emit.vectors import shuffle
from kernels.int8.saturate import inside, saturated
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS


@dataclass(frozen=True)
class OpenElements:
    """How many floats there are where that is known at run time: ``count``, at ``most`` so many, and the
    shapes in which floats and bytes lie."""

    count: Expr
    most: int
    data: tuple[Index, ...]
    out: tuple[Index, ...]


CHAINS = 4
"""Vectors looked at side by side: each of their minima would wait for the one before."""


def build_dynamic_quantize(
    elements: int, target: Target, threads: int, name: str, lies: OpenElements | None = None
) -> PrimFunc:
    """The PrimFunc ``name``: its arguments are ``elements`` floats, as many uint8, and step and zero; of an
    open number of elements, as ``lies`` says, ``elements`` are the fewest.

    The step, float32, is the range of the floats and zero over 255, or one where that is nothing; the byte
    ``zero`` (uint8) stands for zero. Quotients are rounded to the nearest, ties to even, as onnxruntime does.
    Of floats with a NaN the step is NaN.
    """
    data_shape, out_shape = ((elements,), (elements,)) if lies is None else (lies.data, lies.out)
    shapes: dict[str, tuple[Index, ...]] = {"data": data_shape, "out": out_shape, "step": (), "zero": ()}
    function = Function(name, shapes, {"out": "uint8", "zero": "uint8"}, results=3)
    with function as (data, out, step, zero):
        parts = min(threads_for(elements if lies is None else lies.most, threads), elements)
        count: Index = elements if lies is None else held(lies.count.astype("int32"))
        first, last = range_of(data, count, parts, target.lanes())
        span = T.Bind(last - first)
        # NaN is no range, but it must not be lost.
        scale = T.Bind(tirx.Select(span.equal(tir.number(0)), tir.number(1), span / tir.number(255)))
        # Of an infinite range there is no middle: then, and for NaN, it is the largest byte.
        place = T.Bind(tir.number(0) - first / scale)
        place = tirx.Select(place < tir.number(255), place, tir.number(255))
        middle = T.Bind(tirx.nearbyint(tirx.Select(place > tir.number(0), place, tir.number(0))))
        tir.store(step, scale, 0)
        tir.store(zero, convert(convert(middle, "int32", 1), "uint8", 1), 0)
        lanes = min(target.lanes("uint8"), 1 << (elements.bit_length() - 1))
        _quantize(data, out, count, parts, lanes, (scale, middle))
    return function.result()


def _lesser(one: Vector, other: Vector) -> Vector:
    """The lesser number; ``other`` where one is NaN: fewer instructions than to keep it."""
    return tirx.Select(one < other, one, other)


def range_of(data: Buffer, elements: Index, parts: int, lanes: int) -> tuple[Expr, Expr]:
    """The smallest and the largest of all floats and zero; each part of them by a thread of its own.

    A NaN makes the largest NaN, and so all that follows from both.
    """
    ends = tir.scratch(2 * parts)
    share = quotient(tir.index(elements + parts - 1), parts)
    with tir.loop(parts, parts) as part:
        begin = T.Bind(tir.least(part * share, elements))
        _ends_of(data, begin, T.Bind(tir.least(share, elements - begin)), lanes, ends, part, parts)
    found = [tir.number(0), tir.number(0)]
    for part in range(parts):
        found = [_lesser(ends[part], found[0]), tirx.Max(found[1], ends[parts + part])]
    return T.Bind(found[0]), T.Bind(found[1])


def _ends_of(
    data: Buffer, begin: Index, count: Index, lanes: int, ends: Buffer, part: Index, parts: int
) -> None:
    run = CHAINS * lanes
    both: tuple[tuple[Buffer, Callable[..., Vector]], ...] = (
        (tir.registers(run), _lesser),
        (tir.registers(run), tirx.Max),
    )
    slots = [tir.vector(chain * lanes, lanes) for chain in range(CHAINS)]
    for buffer, _ in both:
        for slot in slots:
            tir.store(buffer, tir.zeros(lanes), slot)
    with tir.loop(count // run) as turn:
        for chain, slot in enumerate(slots):
            value = T.Bind(data[tir.vector(begin + turn * run + chain * lanes, lanes)])
            for buffer, better in both:
                tir.store(buffer, better(value, buffer[slot]), slot)
    rest = [tir.registers(1), tir.registers(1)]
    for (buffer, better), end in zip(both, rest, strict=True):
        value = buffer[slots[0]]
        for slot in slots[1:]:
            value = T.Bind(better(value, buffer[slot]))
        width = lanes
        while width > 1:
            width //= 2
            value = T.Bind(better(*(shuffle([value], range(at, at + width)) for at in (0, width))))
        tir.store(end, value, 0)
    done = T.Bind(count // run * run)
    with tir.loop(count - done) as at:
        value = T.Bind(data[begin + done + at])
        for (_, better), end in zip(both, rest, strict=True):
            tir.store(end, better(value, end[0]), 0)
    for place, end in enumerate(rest):
        tir.store(ends, end[0], part + place * parts)


def _quantize(
    data: Buffer, out: Buffer, elements: Index, parts: int, lanes: int, code: tuple[Expr, Expr]
) -> None:
    scale, middle = code

    def some(first: Index, width: int) -> None:
        at = tir.vector(first, width)
        zero = tir.splat(middle, width)
        # Limited before the zero is added: it is whole, so that rounding later is the same.
        value = data[at] / tir.splat(scale, width)
        value = inside(value, tir.zeros(width) - zero, tir.splat(tir.number(255), width) - zero)
        value = convert(tirx.nearbyint(value) + zero, "int32", width)
        tir.store(out, saturated(value, "uint8", LIMITS["uint8"], width), at)

    whole = elements // lanes if isinstance(elements, int) else held(quotient(elements, lanes))
    with tir.loop(whole, parts) as turn:
        some(turn * lanes, lanes)
    if not isinstance(elements, int) or elements % lanes:
        some(tir.index(elements - lanes), lanes)
