"""Instructions of HVX: products by a word of a scalar register, and vectors taken apart and put together.

Hexagon V66 HVX Programmer's Reference Manual. Vectors are of 128 bytes or 32 words.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernels.emit import fast_memory, tir
from kernels.emit.tir import const, reinterpret, store, vector
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.requantize import Multiply, fixed_point_multiply
from kernels.isa.hexagon import HEXAGON
from kernels.target import Target

BYTES, WORDS = 128, 32
MOST_LEFT = 24
"""Bits by which words are shifted left at most: then one alone is beyond any byte."""
_PAIR, _ROOM, _LOAD, _SAVE, READ, WRITE, _SETTLE = (
    f"tilefleet_hvx_{word}" for word in ("pair", "room", "load", "save", "read", "write", "settle")
)
LLVM = f"""
define linkonce_odr i64 @{_PAIR}(ptr %at) alwaysinline {{
  %pair = load i64, ptr %at, align 8
  ret i64 %pair
}}
define linkonce_odr i32 @{_ROOM}(ptr %at) alwaysinline {{
  %number = ptrtoint ptr %at to i32
  %less = sub i32 0, %number
  %room = and i32 %less, {BYTES - 1}
  ret i32 %room
}}
define linkonce_odr <32 x i32> @{_LOAD}(ptr %at) alwaysinline {{
  %words = load <32 x i32>, ptr %at, align {BYTES}
  ret <32 x i32> %words
}}
define linkonce_odr void @{_SAVE}(ptr %at, <32 x i32> %words) alwaysinline {{
  store <32 x i32> %words, ptr %at, align {BYTES}
  ret void
}}
define linkonce_odr <32 x i32> @{READ}(ptr %at) alwaysinline {{
  %words = load volatile <32 x i32>, ptr %at, align 1
  ret <32 x i32> %words
}}
define linkonce_odr void @{WRITE}(ptr %at, <32 x i32> %words) alwaysinline {{
  store <32 x i32> %words, ptr %at, align 1
  ret void
}}
define linkonce_odr void @{_SETTLE}() alwaysinline {{
  call void asm sideeffect "", "~{{memory}}"()
  ret void
}}
"""
"""What TVM does not tell LLVM: that vectors lie at whole ones, that two units are a pair of registers, and
that 128 bytes of any type are a vector.

What is read is volatile, else LLVM reads the whole vectors around several of them that overlap, and one more
behind the last, where nothing may be.
"""


def has_hvx(target: Target) -> bool:
    """Whether ``target`` has vectors of this size."""
    return target.isa is HEXAGON and target.integer_vector_bits == 8 * BYTES


class Memory:
    """A workspace of bytes, or of int32, whose first element is at a whole vector.

    ``fast`` memory is for what vectors alone read and write: each scalar access there waits.
    """

    def __init__(self, elements: int, dtype: str = "uint8", fast: bool = False) -> None:
        size = 4 if dtype == "int32" else 1
        scope = fast_memory.SCOPE if fast else "global"
        self.buffer = tir.scratch(elements + BYTES // size, dtype, scope)
        address = tirx.address_of(tirx.BufferLoad(self.buffer, [tir.index(0)]))
        self.base = T.Bind(tirx.call_extern("int32", _ROOM, address) // size)

    def __getitem__(self, at: Index) -> Vector:
        """One element."""
        return self.buffer[self.base + at]

    def address(self, at: Index) -> Vector:
        """That of an element."""
        return tirx.address_of(tirx.BufferLoad(self.buffer, [self.base + at]))

    def load(self, at: Index) -> Vector:
        """A vector at a whole one, as words."""
        return T.Bind(tirx.call_extern("int32x32", _LOAD, self.address(at)))

    def save(self, value: Vector, at: Index) -> None:
        """Store words at a whole vector."""
        T.evaluate(tirx.call_extern("void", _SAVE, self.address(at), value))

    def pair(self, at: Index) -> tuple[Vector, Vector]:
        """Two units of four bytes from element ``at``, a multiple of 8, each in a scalar register."""
        both = T.Bind(tirx.call_extern("int64", _PAIR, self.address(at)))
        high = tirx.shift_right(both, tirx.const(32, "int64"))
        return T.Bind(tirx.Cast("int32", both)), T.Bind(tirx.Cast("int32", high))

    def piece(self, at: Index, width: int) -> Vector:
        """Some bytes."""
        return self.buffer[vector(self.base + at, width)]

    def put(self, value: Vector, at: Index, width: int) -> None:
        """Store some bytes."""
        store(self.buffer, value, vector(self.base + at, width))


def call(kind: str, name: str, *values: Vector) -> Vector:
    """The result of an instruction, bound to a variable."""
    return T.Bind(tirx.call_llvm_pure_intrin(kind, f"llvm.hexagon.V6.{name}.128B", *values))


def words(name: str, *values: Vector) -> Vector:
    """That of one whose result are words."""
    return call("int32x32", name, *values)


def pinned(name: str, *values: Vector) -> Vector:
    """As ``words``, for what is used often: TVM's passes write pure values into all that uses them."""
    return T.Bind(tirx.call_llvm_intrin("int32x32", f"llvm.hexagon.V6.{name}.128B", *values))


def as_words(value: Vector) -> Vector:
    """128 bytes as words."""
    return reinterpret(value, "int32", WORDS)


def as_bytes(value: Vector) -> Vector:
    """32 words as bytes."""
    return reinterpret(value, "uint8", BYTES)


def products(total: Vector, weights: Vector, unit: Vector) -> Vector:
    """``total`` plus the products of four unsigned bytes of each word of ``weights`` by those of ``unit``."""
    return words("vrmpyub.acc", total, weights, unit)


def swapped(low: Vector, high: Vector, size: int) -> tuple[Vector, Vector]:
    """Words of two vectors: of pairs of runs of ``size`` bytes, the first of both, and the second of both."""
    both = call("int32x64", "vshuffvdd", high, low, const(size))
    return words("lo", both), words("hi", both)


def squares(rows: Sequence[Vector]) -> list[Vector]:
    """The transpose of four vectors (words) of four runs of 32 bytes."""
    a, b = swapped(rows[0], rows[1], 32)
    c, d = swapped(rows[2], rows[3], 32)
    (one, three), (two, four) = swapped(a, c, 64), swapped(b, d, 64)
    return [one, two, three, four]


def sum_of_pixels(total: Vector) -> Vector:
    """Each word whose number is a multiple of 8: the sum of 8 words from there on."""
    for distance in (16, 8, 4):
        total = words("vaddw", total, words("vror", total, const(distance)))
    return total


def high(multiplier: Vector, shift: Vector) -> Multiply:
    """``round(value * multiplier * 2^(-31 - shift))`` of words, where all shifts are 2 or more."""
    half = T.Bind(tirx.shift_left(const(1, lanes=WORDS), shift - const(2, lanes=WORDS)))
    rest = T.Bind(shift - const(1, lanes=WORDS))

    def multiply(value: Vector) -> Vector:
        low = call("int32x64", "vmpyewuh.64", value, multiplier)
        upper = words("hi", call("int32x64", "vmpyowh.64.acc", low, value, multiplier))
        return words("vasrwv", words("vaddw", upper, half), rest)

    return multiply


def any_scale(multiplier: Vector, shift: Vector) -> Multiply:
    """``round(value * multiplier * 2^(-31 - shift))`` of words; multipliers are 0 or from 2^30 on.

    A word is shifted left until its scale is a small one. What does not fit then is beyond any byte, and
    stays so.
    """
    two, none = const(2, lanes=WORDS), const(0, lanes=WORDS)
    left = T.Bind(tirx.Max(tirx.Min(two - shift, const(MOST_LEFT, lanes=WORDS)), none))
    most = pinned("vasrwv", const((1 << 31) - 1, lanes=WORDS), left)
    least = pinned("vnot", most)
    small = high(multiplier, T.Bind(tirx.Max(shift, two)))

    def multiply(value: Vector) -> Vector:
        limited = words("vmaxw", words("vminw", value, most), least)
        return small(words("vaslwv", limited, left))

    return multiply


def scaling(multiplier: Vector, shift: Vector, how: str) -> Multiply:
    """``requantize.fixed_point_multiply`` of vectors by scales, one a lane, ``how`` as there.

    Without vectors of int64, which LLVM takes apart for minutes, and once wrongly: of sums shifted left.
    """
    ways = {"high": high, "exact": any_scale}
    return (
        ways[how](multiplier, shift) if how in ways else fixed_point_multiply(multiplier, shift, how, WORDS)
    )


def narrowed(values: Sequence[Vector], zero: int) -> Vector:
    """Four vectors of words, plus ``zero``, as one of unsigned bytes (words); what does not fit saturates."""
    pairs = [words("vpackwh.sat", values[at + 1], values[at]) for at in (0, 2)]
    if zero:
        added = T.Bind(reinterpret(const(zero, "int16", 2 * WORDS), "int32", WORDS))
        pairs = [words("vaddhsat", pair, added) for pair in pairs]
    return words("vpackhub.sat", pairs[1], pairs[0])


def limited(value: Vector, low: int, high: int) -> Vector:
    """Unsigned bytes (words) limited to a range."""
    for name, limit, open_end in (("vmaxub", low, 0), ("vminub", high, 255)):
        if limit != open_end:
            value = words(name, value, as_words(const(limit, "uint8", BYTES)))
    return value


def flipped(value: Vector) -> Vector:
    """Bytes (words) of which the upper bit is the other: int8 as uint8 with 128 added, or back."""
    return words("vxor", value, as_words(const(128, "uint8", BYTES)))


def read(buffer: Buffer, at: Index) -> Vector:
    """128 bytes from element ``at`` of an array of any type, as words (``LLVM``)."""
    return T.Bind(tirx.call_extern("int32x32", READ, tirx.address_of(buffer[tir.index(at)])))


def write(buffer: Buffer, value: Vector, at: Index) -> None:
    """Store words as 128 bytes from element ``at`` of an array of any type (``LLVM``)."""
    T.evaluate(tirx.call_extern("void", WRITE, tirx.address_of(buffer[tir.index(at)]), value))


def settle() -> None:
    """Let LLVM make no call of ``memcpy`` or ``memset`` of the loop around this, which go byte by byte."""
    T.evaluate(tirx.call_extern("void", _SETTLE))


def load(buffer: Buffer, at: Index) -> Vector:
    """128 bytes as words."""
    return T.Bind(as_words(buffer[vector(at, BYTES)]))


def save(buffer: Buffer, value: Vector, at: Index) -> None:
    """Store words as 128 bytes of the buffer's type."""
    store(buffer, reinterpret(value, str(buffer.dtype), BYTES), vector(at, BYTES))
