"""log, log2, log10, log1p and pow.

x is split into a power of two and a number between sqrt(1/2) and sqrt(2), whose logarithm is a polynomial.
Zero has the logarithm minus infinity, what is negative NaN.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from kernels.emit.vector_math.code import DOUBLE, SINGLE, Value
from kernels.emit.vector_math.exponential import LN_10, LOG2_E, exp2

_SQRT_HALF = {SINGLE: 0x3F3504F3, DOUBLE: 0x3FE6A09E667F3BCD}
"""The bits of sqrt(1/2)."""
_LN_2 = {
    SINGLE: (0.693359375, -2.12194440054690583e-4),
    DOUBLE: (0.69314718036912382, 1.9082149292705877e-10),
}
_LOG10_2 = {
    SINGLE: (0.30078125, 2.4874566398119521e-4),
    DOUBLE: (0.30102999566383914, 1.4205023227266099e-13),
}
# fmt: off
# (log(1 + f) - f + f**2 / 2) / f**3.
_SINGLE = (0.33333312602802784, -0.25000009603654044, 0.20002118732205568, -0.1666799566710496,
    0.142195509081872, -0.12405591417000565, 0.1188817459855815, -0.11675641303777841, 0.0674660132741683)
# (log(1 + f) - 2 * s) / s**3 of s**2, for s = f / (2 + f).
_DOUBLE = (0.6666666666666666, 0.40000000000007224, 0.2857142856880504, 0.22222222686716492,
    0.18181772587453754, 0.1538722168379678, 0.132472320489579, 0.13277060090076787)
# fmt: on


class _Split(NamedTuple):
    """``log(x) = n * log(2) + (f - less)``."""

    n: Value
    f: Value
    less: Value


def log(x: Value) -> Value:
    """The natural logarithm."""
    parts = _split(x)
    first, second = _LN_2[x.format]
    return _defined(x, parts.n * first + (parts.f - (parts.less - parts.n * second)))


def log2(x: Value) -> Value:
    """The logarithm to base 2."""
    return _defined(x, _log2(_split(x)))


def log10(x: Value) -> Value:
    """The logarithm to base 10."""
    parts = _split(x)
    first, second = _LOG10_2[x.format]
    of_f = parts.f * (1 / LN_10) - parts.less * (1 / LN_10)
    return _defined(x, parts.n * first + (parts.n * second + of_f))


def log1p(x: Value) -> Value:
    """``log(1 + x)``, of small x too."""
    one = x + 1.0
    # What the sum has lost.
    rest = (x - (one - 1.0)) / one
    parts = _split(one)
    first, second = _LN_2[x.format]
    value = parts.n * first + (parts.f - (parts.less - (parts.n * second + rest)))
    return (x.magnitude() < 1 << x.format.fraction).choose(x, _defined(one, value))


def pow(x: Value, y: Value) -> Value:
    """``x ** y`` as C defines it; float32 computes as float64."""
    base, exponent = x.to(DOUBLE), y.to(DOUBLE)
    size = base.absolute()
    power = exp2(exponent * _edges(size, _log2(_split(size))))
    # From 2**52 on numbers are whole, from 2**53 on even; the lowest bit of those between says odd or even.
    length = exponent.absolute()
    turns = (length < 2.0**52).choose(length + 2.0**52, length)
    whole = ~(length < 2.0**52) | (turns - 2.0**52).equals(length)
    if x.format == DOUBLE:
        power = (whole & (length < 64.0)).choose(_product(size, exponent, power), power)
    negative = base.bits() < 0
    odd = (turns.bits() << (DOUBLE.bits - 1)).number()
    signed = (negative & whole & (length < 2.0**53)).choose(power.with_sign(odd), power)
    undefined = negative & ~whole & (size.bits() > 0) & (size.bits() < DOUBLE.infinity)
    value = undefined.choose(power.of(math.nan), signed)
    value = (base.is_nan() | exponent.is_nan()).choose(base + exponent, value)
    one = (
        exponent.magnitude().equals(0)
        | base.equals(1.0)
        | (size.equals(1.0) & exponent.magnitude().equals(DOUBLE.infinity))
    )
    return one.choose(value.of(1.0), value).to(x.format)


def _product(x: Value, count: Value, otherwise: Value) -> Value:
    """x times itself, so that powers of integers are exact; ``otherwise`` where that overflows."""
    product, factor = x.of(1.0), x
    _, turns = count.absolute().at_most(63.0).rounded()
    for bit in range(6):
        product = (turns.bits() & (1 << bit)).equals(0).choose(product, product * factor)
        factor = factor * factor
    power = (count < 0.0).choose(1.0 / product, product)
    return (product.bits() < DOUBLE.infinity).choose(power, otherwise)


def _log2(parts: _Split) -> Value:
    return parts.n + (parts.f + (parts.f * (LOG2_E - 1) - parts.less * LOG2_E))


def _split(x: Value) -> _Split:
    """The parts of a positive number."""
    format, root = x.format, _SQRT_HALF[x.format]
    scale = format.fraction + 1
    tiny = x.bits() < 1 << format.fraction
    bits = tiny.choose(x * 2.0**scale, x).bits()
    moved = bits + (format.one - root)
    # An exponent below the point of a large number is that number and the exponent.
    large = 2.0**format.fraction
    exponent = (moved.shifted_in_zeros(format.fraction) | x.of(large).bits()).number()
    n = exponent - tiny.choose(x.of(large + format.bias + scale), large + format.bias)
    f = ((moved & ((1 << format.fraction) - 1)) + root).number() - 1.0
    half = f * f * 0.5
    if format == SINGLE:
        return _Split(n, f, half - f.polynomial(_SINGLE) * (f * f * f))
    s = f / (f + 2.0)
    square = s * s
    return _Split(n, f, half - s * (square.polynomial(_DOUBLE) * square + half))


def _defined(x: Value, value: Value) -> Value:
    """``value``, or what the logarithm is where x is no positive finite number."""
    return (x.bits() < 0).choose(
        (x.magnitude() > 0).choose(x.of(math.nan), x.of(-math.inf)), _edges(x, value)
    )


def _edges(x: Value, value: Value) -> Value:
    """``value`` of finite x above zero; minus infinity at zero, what x is at infinity and NaN."""
    value = x.bits().equals(0).choose(x.of(-math.inf), value)
    return (x.bits() > x.format.infinity - 1).choose(x, value)
