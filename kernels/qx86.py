"""How x86 multiplies and adds 8-bit numbers: int16 pairs, byte pairs where they fit, VNNI.

TVM objects are Any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
from tvm import tirx
from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.qtir import QArguments, const, convert, of_type, reinterpret
from kernels.qworkload import QConv2d
from kernels.requantize import fixed_point_multiply
from kernels.target import Target
from kernels.vectors import shuffle

LINE_BYTES = 64
INT16 = (-(1 << 15), (1 << 15) - 1)
FORK_CYCLES = 10_000
"""Starting threads on a loop and waiting for the last of them: some 3 microseconds."""

PARTS = {"sixes": 3, "eights": 4}
"""How many units are added in int16 by the ways of ``kernels/qshort_sums.py``."""


@dataclass(frozen=True)
class Multiply:
    """One way: ``unit`` neighbouring channels are multiplied and added into one 32-bit lane.

    ``data`` and ``packed`` are the types that data and weights must have; ``cycles`` is what one vector of
    weights takes, measured where nothing but arithmetic counts: two multiplications a cycle, a little less
    where additions are as many.
    """

    name: str
    unit: int
    data: str
    packed: str
    cycles: float

    def offset(self, conv: QConv2d) -> int:
        """What is added to the data so that it fits ``data``."""
        return 128 if self.data == "uint8" and conv.data_dtype == "int8" else 0

    def why_not(self, conv: QConv2d, target: Target) -> str | None:
        """Why this is no way to compute ``conv`` exactly on ``target``, or None when it is."""
        low, high = conv.centered_range
        if self.name in ("bytes", *PARTS) and not INT16[0] <= 2 * 255 * low <= 2 * 255 * high <= INT16[1]:
            return f"two products of bytes by weights from {low} to {high} may not fit int16"
        if self.name in PARTS and target.vector_bits != 256:
            return "measured with AVX2 alone"
        if self.name == "vnni":
            if not -128 <= low <= high <= 127:
                return f"weights from {low} to {high} do not fit int8"
            feature = "avx512vnni" if target.vector_bits == 512 else "avxvnni"
            if not has(target, feature):
                return f"{target.name} has no {feature}"
        return None

    def add(self, total: Any, data: Any, weights: Any, bits: int) -> Any:
        """``total`` (int32 lanes) plus the products of one unit of data (in every lane) and of weights."""
        lanes = bits // 32
        if self.name == "words":
            return total + add_pairs(reinterpret(data, "int16", 2 * lanes), weights, bits)
        data = reinterpret(data, "uint8", 4 * lanes)
        if self.name == "vnni":
            name = f"llvm.x86.avx512.vpdpbusd.{bits}"
            return tirx.call_llvm_pure_intrin(of_type("int32", lanes), name, total, data, weights)
        halves = add_products(data, weights, bits)
        return total + add_pairs(halves, const(1, "int16", 2 * lanes), bits)

    def unit_at(self, buffer: Any, at: Any, lanes: int) -> Any:
        """One unit of data from element ``at`` on, in each of ``lanes`` int32 lanes."""
        return tir.splat(reinterpret(buffer[tir.vector(at, self.unit)], "int32", 1), lanes)


WAYS = {
    way.name: way
    for way in (
        Multiply("words", 2, "int16", "int16", 0.65),
        Multiply("bytes", 4, "uint8", "int8", 1.05),
        Multiply("sixes", 4, "uint8", "int8", 0.82),
        Multiply("eights", 4, "uint8", "int8", 0.8),
        Multiply("vnni", 4, "uint8", "int8", 0.5),
    )
}


def why_not_x86(target: Target) -> str | None:
    """Why none of this works on ``target``, or None when int16 pairs do."""
    if not target.triple.startswith("x86_64"):
        return "for x86-64"
    needed = {256: "avx2", 512: "avx512bw"}.get(target.vector_bits)
    return None if needed and has(target, needed) else f"{target.name} has neither AVX2 nor AVX-512BW"


def ways(conv: QConv2d, target: Target) -> list[Multiply]:
    """The ways to compute ``conv`` exactly on ``target``; where there is VNNI, nothing beats it."""
    found = [way for way in WAYS.values() if way.why_not(conv, target) is None]
    return [way for way in found if way.name == "vnni"] or found


def prefetch(buffer: Any, at: Any, elements: int) -> None:
    """Ask for the lines of ``elements`` from ``at`` on to come to L2; they need not be in the buffer."""
    per_line = LINE_BYTES * 8 // int(buffer.dtype.bits)
    hints = [tirx.const(hint, "int32") for hint in (0, 2, 1)]  # a read, to L2, of data
    for first in range(0, elements, per_line):
        address = tirx.address_of(buffer[tir.index(at) + first])
        T.evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *hints))


@cache
def has(target: Target, feature: str) -> bool:
    """Whether LLVM may use an instruction set on ``target``, by its cpu or its features."""
    found = tvm.get_global_func("target.target_has_feature")(feature, tvm.target.Target(target.tvm))
    return bool(found)


def add_pairs(one: Any, other: Any, bits: int) -> Any:
    """Products of int16 lanes, neighbours added into int32 lanes."""
    name = "llvm.x86.avx512.pmaddw.d.512" if bits == 512 else "llvm.x86.avx2.pmadd.wd"
    return tirx.call_llvm_pure_intrin(of_type("int32", bits // 32), name, one, other)


def add_products(data: Any, weights: Any, bits: int) -> Any:
    """Products of uint8 by int8 lanes, neighbours added into int16 lanes (and saturated)."""
    name = "llvm.x86.avx512.pmaddubs.w.512" if bits == 512 else "llvm.x86.avx2.pmadd.ub.sw"
    return tirx.call_llvm_pure_intrin(of_type("int16", bits // 16), name, data, weights)


def scaling_at(args: QArguments, place: Any, how: str, lanes: int) -> Callable[[Any], Any]:
    """``scaling`` by the scales from ``place`` on, or by the one that all filters share where it is None."""
    both = (args.multiplier, args.shift)
    if place is None:
        multiplier, shift = (tir.splat(buffer[0], lanes) for buffer in both)
    else:
        multiplier, shift = (buffer[tir.vector(place, lanes)] for buffer in both)
    return scaling(multiplier, shift, how, lanes)


def scaling(multiplier: Any, shift: Any, how: str, lanes: int) -> Callable[[Any], Any]:
    """``requantize.fixed_point_multiply`` in the instructions of x86.

    vpmuldq multiplies every other lane. Written as a product of int64 vectors, LLVM makes that of it, but
    unpacks and packs the lanes where the multiplier comes from outside of a loop.
    """
    if how != "high":
        return fixed_point_multiply(multiplier, shift, how, lanes)
    multiplier, shift = T.Bind(multiplier), T.Bind(shift)
    even, odd = _every_other(multiplier, lanes)
    half = T.Bind(tirx.shift_left(const(1, lanes=lanes), shift - const(2, lanes=lanes)))
    rest = T.Bind(shift - const(1, lanes=lanes))

    def multiply(value: Any) -> Any:
        products = [
            reinterpret(one * other, "int32", lanes)
            for one, other in zip(_every_other(T.Bind(value), lanes), (even, odd), strict=True)
        ]
        upper = shuffle(products, [at for i in range(1, lanes, 2) for at in (i, lanes + i)])
        return tirx.shift_right(upper + half, rest)

    return multiply


CROSSED = (0, 2, 1, 3)
"""The order in which ``upper_products`` gives each four results, and that which takes it back."""


def upper_products(value: Any, even: Any, odd: Any, lanes: int) -> Any:
    """The upper halves of the products of int32 lanes by multipliers, ``CROSSED``.

    Of ``even`` and of ``odd`` every other lane counts: ``odd`` has the multipliers one lane lower.
    """
    bits = const(32, "int64", lanes // 2)
    order = [at + i for at in range(0, lanes, 4) for i in (1, 3, lanes + 1, lanes + 3)]

    def extended(value: Any) -> Any:
        value = reinterpret(value, "int64", lanes // 2)
        return tirx.shift_right(tirx.shift_left(value, bits), bits)

    value = T.Bind(value)
    products = [
        reinterpret(extended(one) * extended(other), "int32", lanes)
        for one, other in ((value, even), (shuffle([value], [at | 1 for at in range(lanes)]), odd))
    ]
    return shuffle(products, order)


def rounded_words(words: Any, factors: Any, bits: int) -> Any:
    """``(word * factor + 2^14) >> 15`` of int16 lanes: by 2^(15 - n) a shift of n, ties up."""
    name = "llvm.x86.avx512.pmul.hr.sw.512" if bits == 512 else "llvm.x86.avx2.pmul.hr.sw"
    return T.Bind(tirx.call_llvm_pure_intrin(of_type("int16", bits // 16), name, words, factors))


def _every_other(value: Any, lanes: int) -> tuple[Any, Any]:
    """The even and the odd lanes of an int32 vector as int64."""
    bits = const(32, "int64", lanes // 2)
    moved = shuffle([value], [at | 1 for at in range(lanes)])
    even, odd = (reinterpret(each, "int64", lanes // 2) for each in (value, moved))
    # LLVM knows this as a sign extension in place, and does not take it out of loops.
    return tuple(tirx.shift_right(tirx.shift_left(each, bits), bits) for each in (even, odd))


def narrow(conv: QConv2d, lower: Any, upper: Any, bits: int) -> Any:
    """Two vectors of scaled sums as one of results: vpackssdw, zero and limits, then bytes.

    Of each eight results the first four come from ``lower`` and the others from ``upper``.
    """
    lanes = bits // 16
    name = "llvm.x86.avx512.packssdw.512" if bits == 512 else "llvm.x86.avx2.packssdw"
    words = T.Bind(tirx.call_llvm_pure_intrin(of_type("int16", lanes), name, lower, upper))
    # Results far outside saturate in int16, so they are limited before the zero is added.
    low, high = (const(limit - conv.out_zero, "int16", lanes) for limit in conv.out_range)
    limited = tirx.Max(tirx.Min(words, high), low) + const(conv.out_zero, "int16", lanes)
    return T.Bind(convert(limited, conv.out_dtype, lanes))


def words_of(one: Any, other: Any, bits: int) -> Any:
    """Two vectors of int32 as one of int16, saturated: of each eight the first four come from ``one``."""
    return _packed("packssdw", "int16", one, other, bits)


def narrow_bytes(conv: QConv2d, scaled: Sequence[Any], bits: int) -> Any:
    """Four vectors of scaled sums as one of results.

    Of each sixteen results the first four come from the first vector, the next from the second, and so on.
    """
    return narrow_words(conv, [words_of(scaled[at], scaled[at + 1], bits) for at in (0, 2)], bits)


def narrow_words(conv: QConv2d, words: Sequence[Any], bits: int) -> Any:
    """Two vectors of scaled sums from ``words_of`` as one of results, by vpacksswb or vpackuswb.

    Of each sixteen results the first eight come from the first vector.
    """
    lanes = bits // 16
    if conv.out_zero:
        # With saturation: what is far outside stays there.
        kind, zero = of_type("int16", lanes), const(conv.out_zero, "int16", lanes)
        words = [T.Bind(tirx.call_llvm_pure_intrin(kind, "llvm.sadd.sat", word, zero)) for word in words]
    name = "packuswb" if conv.out_dtype == "uint8" else "packsswb"
    result = _packed(name, conv.out_dtype, words[0], words[1], bits)
    low, high = (const(limit, conv.out_dtype, 2 * lanes) for limit in conv.out_range)
    if conv.clamp:
        result = tirx.Max(tirx.Min(result, high), low)
    return result


def _packed(name: str, dtype: str, one: Any, other: Any, bits: int) -> Any:
    """Lanes of half as many bits, 64 bits of the one and of the other in turn."""
    full = f"llvm.x86.avx512.{name}.512" if bits == 512 else f"llvm.x86.avx2.{name}"
    lanes = bits // 8 if dtype.endswith("t8") else bits // 16
    return T.Bind(tirx.call_llvm_pure_intrin(of_type(dtype, lanes), full, one, other))
