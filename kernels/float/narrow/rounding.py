"""Data as int8, block by block of each row, before they meet narrow weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tir import F32, convert
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.workload.narrow import NarrowGemm

MOST = 127.0
"""What the largest magnitude of a block becomes."""


@dataclass(frozen=True)
class Rounded:
    """``data`` are int8, rows of whole words filled up with zeros. For each block of a row ``steps`` say what
    one is worth, and ``zeros`` the sum of its int8, times the usual zero of the weights if they have none."""

    data: Buffer
    steps: Buffer
    zeros: Buffer


def round_data(gemm: NarrowGemm, given: Buffer, filled: int, lanes: int) -> Rounded:
    """Round ``given``, (m, k) floats, to the nearest, ties to even."""
    data = tir.scratch(gemm.m * filled, "int8")
    steps, zeros = (tir.scratch(gemm.m * gemm.blocks) for _ in range(2))
    made = Rounded(data, steps, zeros)
    whole, last = divmod(gemm.k, gemm.block)
    with tir.loop(gemm.m) as row:
        for first, count, size in ((0, whole, gemm.block), (whole, 1, last)):
            if count and size:
                with tir.loop(count) as turn:
                    block = T.Bind(first + turn)
                    source = T.Bind(row * gemm.k + block * gemm.block)
                    target = T.Bind(row * filled + block * gemm.block)
                    places = source, target, T.Bind(row * gemm.blocks + block)
                    _round_block(gemm, made, given, places, size, lanes)
        for at in range(gemm.k, filled):
            tir.store(data, tirx.const(0, "int8"), row * filled + at)
    return made


def _round_block(
    gemm: NarrowGemm,
    made: Rounded,
    given: Buffer,
    places: tuple[Index, Index, Index],
    size: int,
    lanes: int,
) -> None:
    """One block of ``size`` floats. ``places`` are where it begins in the data, where in what is made,
    and its number."""
    source, target, number = places
    width = min(lanes, 1 << (size.bit_length() - 1))
    every, rest = tir.vector(0, width), size % width
    peaks, sums = tir.registers(width), tir.registers(width, "int32")
    tir.store(peaks, tir.splat(tir.number(0.0), width), every)
    tir.store(sums, tir.splat(tirx.const(0, "int32"), width), every)

    def look(start: Index) -> None:
        value = tirx.abs(given[tir.vector(source + start, width)])
        tir.store(peaks, tirx.Max(peaks[every], value), every)

    def put(start: Index, count: int) -> None:
        value = given[tir.vector(source + start, count)] * tir.splat(inverse, count)
        rounded = T.Bind(convert(tirx.nearbyint(value), "int32", count))
        some = tir.vector(0, count)
        tir.store(sums, sums[some] + rounded, some)
        tir.store(made.data, convert(rounded, "int8", count), tir.vector(target + start, count))

    with tir.loop(size // width) as turn:
        look(turn * width)
    if rest:
        look(tir.index(size - width))
    peak = T.Bind(_folded([peaks[place] for place in range(width)], tirx.Max))
    tir.store(made.steps, peak / tir.number(MOST), number)
    inverse = T.Bind(tirx.Select(peak > tir.number(0.0), tir.number(MOST) / peak, tir.number(0.0)))
    with tir.loop(size // width) as turn:
        put(turn * width, width)
    for start in range(size - rest, size):
        put(tir.index(start), 1)
    total = convert(_folded([sums[place] for place in range(width)], lambda one, two: one + two), F32, 1)
    usual = 1.0 if gemm.zeros else 2.0 ** (gemm.bits - 1)
    tir.store(made.zeros, total * tir.number(usual), number)


def _folded(values: list[Vector], join: Callable[[Vector, Vector], Vector]) -> Vector:
    """All of them joined, in pairs."""
    while len(values) > 1:
        pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
        values = [T.Bind(join(*pair)) if len(pair) > 1 else pair[0] for pair in pairs]
    return values[0]
