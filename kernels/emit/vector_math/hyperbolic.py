"""sinh, cosh and the inverses of the hyperbolic functions. Float32 computes as float64."""

from __future__ import annotations

import math

from kernels.emit.vector_math.code import DOUBLE, Value
from kernels.emit.vector_math.exponential import LN_2, exp, expm1
from kernels.emit.vector_math.logarithm import log, log1p
from kernels.emit.vector_math.rounding import sqrt


def sinh(x: Value) -> Value:
    """``(e**x - e**-x) / 2``, by ``e**x - 1`` where the difference is small."""
    wide = x.to(DOUBLE)
    size = wide.absolute()
    less = expm1(size.at_most(1.0))
    small = (less + less / (less + 1.0)) * 0.5
    root, half = _root_and_half(size)
    large = half * root - 0.5 / (root * root)
    return x.is_nan().choose(x, (size < 1.0).choose(small, large).with_sign(wide).to(x.format))


def cosh(x: Value) -> Value:
    """``(e**x + e**-x) / 2``."""
    root, half = _root_and_half(x.to(DOUBLE).absolute())
    return (half * root + 0.5 / (root * root)).to(x.format)


def asinh(x: Value) -> Value:
    """The inverse of sinh."""
    wide = x.to(DOUBLE)
    size = wide.absolute()
    square = size * size
    near = log1p(size + square / (sqrt(square + 1.0) + 1.0))
    return _far(size, near).with_sign(wide).to(x.format)


def acosh(x: Value) -> Value:
    """The inverse of cosh, NaN below 1."""
    wide = x.to(DOUBLE)
    above = wide - 1.0
    near = log1p(above + sqrt(above * (above + 2.0)))
    return (wide < 1.0).choose(wide.of(math.nan), _far(wide, near)).to(x.format)


def atanh(x: Value) -> Value:
    """The inverse of tanh, NaN beyond 1."""
    wide = x.to(DOUBLE)
    size = wide.absolute()
    value = (log1p((size + size) / (1.0 - size)) * 0.5).with_sign(wide)
    return (size.bits() > DOUBLE.one).choose(wide.of(math.nan), value).to(x.format)


def _root_and_half(size: Value) -> tuple[Value, Value]:
    """``e**(size / 2)`` and half of it, whose product overflows no sooner than the result."""
    root = exp(size * 0.5)
    return root, root * 0.5


def _far(size: Value, near: Value) -> Value:
    """``near``, or ``log(2 * size)`` where a square of ``size`` would overflow or the two are the same."""
    return (size > 2.0**60).choose(log(size) + LN_2, near)
