"""From int32 sums to results on x86: scaled, and saturated to bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kernels.emit.tir import const, of_type, reinterpret
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Vector
from kernels.emit.vectors import shuffle
from kernels.int8 import finish
from kernels.int8.requantize import Multiply, fixed_point_multiply
from kernels.int8.tir import QArguments
from kernels.workload.qconv2d import QConv2d


class Finish(finish.Finish):
    """The same in the instructions of x86, four vectors of sums in one of bytes."""

    def __init__(self, args: QArguments, how: str, bits: int) -> None:
        super().__init__(args, how, bits)
        # narrow_bytes takes four results of each vector in turn.
        fours = [4 * (4 * four + at) for at in range(4) for four in range(self._lanes // 4)]
        self._in_order = [first + i for first in fours for i in range(4)]

    def _multiply(self, multiplier: Vector, shift: Vector) -> Multiply:
        return scaling(multiplier, shift, self._how, self._lanes)

    def _narrowed(self, scale: Multiply) -> Callable[[Sequence[Vector]], Iterator[Vector]]:
        def results(sums: Sequence[Vector]) -> Iterator[Vector]:
            scaled = [T.Bind(scale(value)) for value in sums]
            scaled += [scaled[-1]] * (4 - len(sums))
            ordered = shuffle([narrow_bytes(self._conv, scaled, self._bits)], self._in_order)
            for at in range(len(sums)):
                yield shuffle([ordered], range(at * self._lanes, (at + 1) * self._lanes))

        return results


def scaling(multiplier: Vector, shift: Vector, how: str, lanes: int) -> Multiply:
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

    def multiply(value: Vector) -> Vector:
        products = [
            reinterpret(one * other, "int32", lanes)
            for one, other in zip(_every_other(T.Bind(value), lanes), (even, odd), strict=True)
        ]
        upper = shuffle(products, [at for i in range(1, lanes, 2) for at in (i, lanes + i)])
        return tirx.shift_right(upper + half, rest)

    return multiply


CROSSED = (0, 2, 1, 3)
"""The order in which ``upper_products`` gives each four results, and that which takes it back."""


def upper_products(value: Vector, even: Vector, odd: Vector, lanes: int) -> Vector:
    """The upper halves of the products of int32 lanes by multipliers, ``CROSSED``.

    Of ``even`` and of ``odd`` every other lane counts: ``odd`` has the multipliers one lane lower.
    """
    bits = const(32, "int64", lanes // 2)
    order = [at + i for at in range(0, lanes, 4) for i in (1, 3, lanes + 1, lanes + 3)]

    def extended(value: Vector) -> Vector:
        value = reinterpret(value, "int64", lanes // 2)
        return tirx.shift_right(tirx.shift_left(value, bits), bits)

    value = T.Bind(value)
    products = [
        reinterpret(extended(one) * extended(other), "int32", lanes)
        for one, other in ((value, even), (shuffle([value], [at | 1 for at in range(lanes)]), odd))
    ]
    return shuffle(products, order)


def rounded_words(words: Vector, factors: Vector, bits: int) -> Vector:
    """``(word * factor + 2^14) >> 15`` of int16 lanes: by 2^(15 - n) a shift of n, ties up."""
    name = "llvm.x86.avx512.pmul.hr.sw.512" if bits == 512 else "llvm.x86.avx2.pmul.hr.sw"
    return T.Bind(tirx.call_llvm_pure_intrin(of_type("int16", bits // 16), name, words, factors))


def _every_other(value: Vector, lanes: int) -> tuple[Vector, Vector]:
    """The even and the odd lanes of an int32 vector as int64."""
    bits = const(32, "int64", lanes // 2)
    moved = shuffle([value], [at | 1 for at in range(lanes)])
    even, odd = (reinterpret(each, "int64", lanes // 2) for each in (value, moved))
    # LLVM knows this as a sign extension in place, and does not take it out of loops.
    return tuple(tirx.shift_right(tirx.shift_left(each, bits), bits) for each in (even, odd))


def words_of(one: Vector, other: Vector, bits: int) -> Vector:
    """Two vectors of int32 as one of int16, saturated: of each eight the first four come from ``one``."""
    return _packed("packssdw", "int16", one, other, bits)


def narrow_bytes(conv: QConv2d, scaled: Sequence[Vector], bits: int) -> Vector:
    """Four vectors of scaled sums as one of results.

    Of each sixteen results the first four come from the first vector, the next from the second, and so on.
    """
    return narrow_words(conv, [words_of(scaled[at], scaled[at + 1], bits) for at in (0, 2)], bits)


def narrow_words(conv: QConv2d, words: Sequence[Vector], bits: int) -> Vector:
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


def _packed(name: str, dtype: str, one: Vector, other: Vector, bits: int) -> Vector:
    """Lanes of half as many bits, 64 bits of the one and of the other in turn."""
    full = f"llvm.x86.avx512.{name}.512" if bits == 512 else f"llvm.x86.avx2.{name}"
    lanes = bits // 8 if dtype.endswith("t8") else bits // 16
    return T.Bind(tirx.call_llvm_pure_intrin(of_type(dtype, lanes), full, one, other))
