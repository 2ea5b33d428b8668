"""Between floats and bytes on HVX, which has no floats: by their bits and tables.

A byte as a float is one of 256. A float as a byte is first estimated, never too high and at most one too low,
by a product of its mantissa, and then compared with the largest float that still becomes the estimate.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kernels.emit.tir import const
from kernels.emit.tvm import T
from kernels.emit.types import Vector
from kernels.int8.hvx.instructions import WORDS, call, pinned, words
from kernels.int8.hvx.tables import ENTRIES, WordTable
from kernels.int8.quantization import Quantization
from kernels.workload.qconv2d import LIMITS

SCALES = 2.0**-100, 2.0**100
"""Of which estimates are right: floats without a leading bit become the zero point."""
_MOST, _SIGN_LESS = (1 << 31) - 1, 0x7FFFFFFF
_INFINITY, _MANTISSA, _LEADING = 0x7F800000, 0x7FFFFF, 0x800000
_FRACTION = 6
"""Bits below a quantum that an estimate has, of which it may be wrong by two units."""
_BELOW = 4
"""Units that are taken off, so that an estimate is not too high."""


def floats_of(code: Quantization) -> WordTable:
    """The bits of the float of each byte, by the bits of the byte."""
    floats = np.empty(ENTRIES, np.float32)
    quanta = code.all_quanta()
    floats[quanta.view(np.uint8)] = code.real(quanta)
    return WordTable(tuple(floats.view(np.int32).tolist()))


def ends_of(code: Quantization) -> WordTable:
    """The largest float that becomes each quantum or a lower one, from the lowest quantum on.

    As integers in the order of the floats: those of negative ones are negative.
    """
    low, high = (int(_bits_in_order(np.float32(end))) for end in (-np.inf, np.inf))
    wanted = np.arange(ENTRIES - 1)
    lower, upper = np.full(ENTRIES - 1, low, np.int64), np.full(ENTRIES - 1, high, np.int64)
    while (upper - lower > 1).any():
        middle = (lower + upper) >> 1
        fits = code.quanta(_in_order(middle)).astype(np.int64) - LIMITS[code.dtype][0] <= wanted
        lower, upper = np.where(fits, middle, lower), np.where(fits, upper, middle)
    # Nothing is above the last one.
    return WordTable((*lower.tolist(), _MOST))


def _bits_in_order(value: npt.NDArray[np.float32] | np.float32) -> npt.NDArray[np.int32]:
    bits = np.asarray(value, np.float32).view(np.int32)
    return bits ^ ((bits >> 31) & _SIGN_LESS)


def _in_order(number: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    bits = number.astype(np.int32)
    return (bits ^ ((bits >> 31) & np.int32(_SIGN_LESS))).view(np.float32)


def numbers(bits: Vector) -> Vector:
    """The bits of floats (words), of which what is no number is negative: it counts as the least."""
    magnitude = words("vand", bits, _all(_SIGN_LESS))
    beyond = words("vminw", words("vmaxw", words("vsubw", magnitude, _all(_INFINITY)), _all(0)), _all(1))
    return pinned("vor", bits, words("vaslw", beyond, const(31)))


def is_above(bits: Vector, end: Vector) -> Vector:
    """1 where a float is larger than ``end``, its number in order, else 0 (words)."""
    order = words("vand", words("vasrw", bits, const(31)), _all(_SIGN_LESS))
    difference = words("vsubwsat", words("vxor", bits, order), end)
    return words("vminw", words("vmaxw", difference, _all(0)), _all(1))


def estimate(bits: Vector, code: Quantization) -> Vector:
    """What number of a quantum, from 0 on, the float of these ``bits`` becomes, or one less (words)."""
    fraction, exponent = np.frexp(1 / np.float64(np.float32(code.scale)))
    # 1 / scale = factor * 2^(exponent - 31), float = mantissa * 2^(its exponent - 150), and the upper half of
    # the product of the mantissa with 7 bits more has 25 bits less.
    factor = min(round(float(fraction) * 2.0**31), _MOST)
    right = 150 - 25 + 31 - int(exponent) - _FRACTION
    magnitude = words("vand", bits, _all(_SIGN_LESS))
    mantissa = words("vor", words("vand", magnitude, _all(_MANTISSA)), _all(_LEADING))
    shifted, by = words("vaslw", mantissa, const(7)), T.Bind(_all(factor))
    low = call("int32x64", "vmpyewuh.64", shifted, by)
    product = words("hi", call("int32x64", "vmpyowh.64.acc", low, shifted, by))
    # Products have 29 or 30 bits: beyond these limits they are zero, or far more than bytes.
    distance = words("vsubw", _all(right), words("vlsrw", magnitude, const(23)))
    distance = words("vmaxw", words("vminw", distance, _all(31)), _all(12))
    size, sign = words("vasrwv", product, distance), words("vasrw", bits, const(31))
    value = words("vsubw", words("vxor", size, sign), sign)
    half = (1 << (_FRACTION - 1)) - _BELOW
    zero = code.zero - LIMITS[code.dtype][0]
    quantum = words("vasrw", words("vaddw", value, _all(half)), const(_FRACTION))
    quantum = words("vaddw", quantum, _all(zero))
    return pinned("vmaxw", words("vminw", quantum, _all(ENTRIES - 1)), _all(0))


def packed(values: list[Vector]) -> Vector:
    """Four vectors of numbers from 0 to 255 as one of bytes (words)."""
    pairs = [words("vpackeh", values[at + 1], values[at]) for at in (0, 2)]
    return pinned("vpackeb", pairs[1], pairs[0])


def _all(value: int) -> Vector:
    return const(value, lanes=WORDS)
