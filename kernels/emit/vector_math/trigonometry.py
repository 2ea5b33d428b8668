"""sin, cos, tan and their inverses.

x is split into quarter turns and a rest of at most half of one. Float32 is split as float64, exactly for
every x. Float64 is split as if x were off by less than a unit in its last place, which counts beyond 1e6;
beyond 2**50, where that is a quarter turn, the result is NaN.
"""

from __future__ import annotations

import math

from kernels.emit.vector_math.code import DOUBLE, SINGLE, Value
from kernels.emit.vector_math.rounding import sqrt

_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0
"""2 / pi in units of 2**-320."""
# fmt: off
# (sin(x) - x) / x**3 and (cos(x) - 1 + x**2 / 2) / x**4 of x**2, for x up to pi / 4.
_SIN = {
    SINGLE: (-0.16666666640587083, 0.00833332928043047, -0.0001983930439169894, 2.718046284249916e-06),
    DOUBLE: (-0.16666666666666666, 0.008333333333333325, -0.00019841269841249306, 2.7557319208563896e-06,
        -2.5052103026454412e-08, 1.6058094151590458e-10, -7.56425301224503e-13),
}
_COS = {
    SINGLE: (0.04166664555400517, -0.0013887309847670642, 2.44324111086298e-05),
    DOUBLE: (0.041666666666666664, -0.001388888888888905, 2.480158730171726e-05, -2.755731927226724e-07,
        2.0876765924098706e-09, -1.1471479718404841e-11, 4.786791869677214e-14),
}
# (atan(x) - x) / x**3 of x**2, for x up to tan(pi / 8).
_ATAN = (-0.33333333333333326, 0.19999999999997586, -0.14285714285378873, 0.11111111087645073,
    -0.09090908126551386, 0.07692282380799122, -0.06666221592255414, 0.05876975052401622,
    -0.052181261190495674, 0.04502500783363882, -0.03345175582293822, 0.015173625431030404)
# pi / 2 in parts of 33 bits.
_HALF_PI = (1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624871116645580e-21)
# fmt: on


def sin(x: Value) -> Value:
    """The sine."""
    quarter, rest = _split(x)
    return _odd(x, _finite(x, _turned(quarter, *_sin_and_cos(rest))))


def cos(x: Value) -> Value:
    """The cosine."""
    quarter, rest = _split(x)
    return _finite(x, _turned(quarter + 1, *_sin_and_cos(rest)))


def tan(x: Value) -> Value:
    """The tangent; float32 computes as float64."""
    quarter, rest = _split_exactly(x.to(DOUBLE)) if x.format == SINGLE else _split(x)
    sine, cosine = _sin_and_cos(rest)
    turned = (quarter & 1).equals(0).choose(sine / cosine, -(cosine / sine))
    return _odd(x, _finite(x, turned.to(x.format)))


def atan(x: Value) -> Value:
    """The inverse of the tangent; float32 computes as float64."""
    return _atan(x.to(DOUBLE)).to(x.format)


def asin(x: Value) -> Value:
    """The inverse of the sine; float32 computes as float64."""
    wide = x.to(DOUBLE)
    size = wide.absolute()
    angle = _atan(size / sqrt((1.0 - size) * (size + 1.0))).with_sign(wide)
    return _within_one(size, angle).to(x.format)


def acos(x: Value) -> Value:
    """The inverse of the cosine; float32 computes as float64."""
    wide = x.to(DOUBLE)
    angle = _atan(sqrt((1.0 - wide) / (wide + 1.0))) * 2.0
    return _within_one(wide.absolute(), angle).to(x.format)


def _within_one(size: Value, value: Value) -> Value:
    """``value`` where ``size`` is at most one, else NaN."""
    return (size.bits() > DOUBLE.one).choose(value.of(math.nan), value)


def _odd(x: Value, value: Value) -> Value:
    """``value``, or x itself at zero, which has a sign, and so close to it that both are the same."""
    return (x.magnitude() < 1 << x.format.fraction).choose(x, value)


def _finite(x: Value, value: Value) -> Value:
    """``value``, or NaN for an infinite x or one too large to have an angle."""
    end = SINGLE.infinity if x.format == SINGLE else (DOUBLE.bias + 50) << DOUBLE.fraction
    return (x.magnitude() > end - 1).choose(value.of(math.nan), value)


def _turned(quarter: Value, sine: Value, cosine: Value) -> Value:
    """The sine of an angle and so many quarter turns."""
    value = (quarter & 1).equals(0).choose(sine, cosine)
    return (value.bits() ^ ((quarter & 2) << (value.format.bits - 2))).number()


def _sin_and_cos(x: Value) -> tuple[Value, Value]:
    square = x * x
    sine = square.polynomial(_SIN[x.format]) * (square * x) + x
    return sine, square.polynomial(_COS[x.format]) * (square * square) + (1.0 - square * 0.5)


def _split(x: Value) -> tuple[Value, Value]:
    """How many quarter turns, as bits of which the lowest two count, and the rest in radians."""
    if x.format == SINGLE:
        quarter, rest = _split_exactly(x.to(DOUBLE))
        return quarter.low_half(), rest.to(SINGLE)
    n, turns = (x * (2 / math.pi)).rounded()
    for part in _HALF_PI:
        x = x - n * part
    return turns.bits(), x


def _split_exactly(x: Value) -> tuple[Value, Value]:
    """The same of a float64 that holds a float32: its products with 28 bits of 2 / pi are exact.

    Of 2 / pi it leaves out what gives whole turns for all lowest bits that an x of that size may have.
    """
    size = x.absolute()
    parts = [x.of(part) for part in _two_over_pi(0)]
    for exponent in (28, 53, 78, 103):
        large = size > 2.0**exponent * (1 - 2.0**-30)
        parts = [
            large.choose(x.of(new), part)
            for new, part in zip(_two_over_pi(exponent - 25), parts, strict=True)
        ]
    first, second, third = (x * part for part in parts)
    n, turns = first.rounded()
    first = first - n
    n, more_turns = (first + second).rounded()
    rest = (first - n) + second + third
    return turns.bits() + more_turns.bits(), rest * (math.pi / 2)


def _two_over_pi(start: int) -> list[float]:
    """2 / pi from the bit after 2**-start on: 28, 28 and 53 bits."""
    parts = []
    for count in (28, 28, 53):
        start += count
        parts.append(math.ldexp((_TWO_OVER_PI >> (320 - start)) & ((1 << count) - 1), -start))
    return parts


def _atan(x: Value) -> Value:
    """Of float64: by ``1 / x`` for x above 1, and by the angle to an eighth turn for what is not small."""
    size = x.absolute()
    steep = size > 1.0
    slope = steep.choose(1.0 / size, size)
    wide = slope > math.tan(math.pi / 8)
    small = wide.choose((slope - 1.0) / (slope + 1.0), slope)
    square = small * small
    angle = square.polynomial(_ATAN) * (square * small) + small
    angle = angle + wide.choose(x.of(math.pi / 4), 0.0)
    return steep.choose(math.pi / 2 - angle, angle).with_sign(x)
