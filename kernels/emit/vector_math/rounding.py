"""Square roots, rounding to whole numbers, and what a division leaves.

Roots and rounding are instructions where a machine has them, else arithmetic.
"""

from __future__ import annotations

import math

from kernels.emit.vector_math.code import DOUBLE, SINGLE, Value

_ROOT = {SINGLE: (0x5F375A86, 4), DOUBLE: (0x5FE6EB50C7B537A9, 5)}
"""The bits of ``1 / sqrt(x)`` are nearly this less half of the bits of x; so many steps give all digits."""


def sqrt(x: Value) -> Value:
    """The square root; by arithmetic right to one unit in the last place."""
    if x.code.complete:
        return x.call("sqrt")
    guess, steps = _ROOT[x.format]
    # Numbers below the smallest normal one have fewer digits.
    power = (x.format.fraction + 1) // 2
    tiny = x.bits() < 1 << x.format.fraction
    inside = tiny.choose(x * 4.0**power, x)
    inverse = (inside.of_bits(guess) - inside.bits().shifted_in_zeros(1)).number()
    half = inside * 0.5
    for _ in range(steps):
        inverse = inverse * (1.5 - half * inverse * inverse)
    root = inside * inverse
    root = root + (inside - root * root) * inverse * 0.5
    root = tiny.choose(root * 2.0**-power, root)
    root = (x.bits() < 0).choose(x.of(math.nan), root)
    same = x.magnitude().equals(0) | (x.bits() > x.format.infinity - 1)
    return same.choose(x, root)


def rsqrt(x: Value) -> Value:
    """One over the square root."""
    return 1.0 / sqrt(x)


def round(x: Value) -> Value:
    """The nearest whole number, the even one of two."""
    return x.call("rint") if x.code.complete else _whole(x, _nearest(x))


def floor(x: Value) -> Value:
    """The next whole number below."""
    if x.code.complete:
        return x.call("floor")
    near = _nearest(x)
    return _whole(x, (near > x).choose(near - 1.0, near))


def ceil(x: Value) -> Value:
    """The next whole number above."""
    if x.code.complete:
        return x.call("ceil")
    near = _nearest(x)
    return _whole(x, (near < x).choose(near + 1.0, near))


def trunc(x: Value) -> Value:
    """The next whole number towards zero."""
    if x.code.complete:
        return x.call("trunc")
    size = x.absolute()
    near = _nearest(size)
    return _whole(x, (near > size).choose(near - 1.0, near))


def fmod(x: Value, y: Value) -> Value:
    """``x - n * y`` for the quotient n rounded towards zero, exactly. Of float32, computed as float64."""
    size, divisor = x.to(DOUBLE).absolute(), y.to(DOUBLE).absolute()
    left = size
    # A quotient may have 277 bits: 24 of them a step.
    for step in reversed(range(12)):
        times = divisor * 2.0 ** (24 * step)
        n, _ = (left / times).rounded()
        left = left - n * times
        left = (left < 0.0).choose(left + times, left)
    left = (y.magnitude() > y.format.infinity - 1).choose(size, left).with_sign(x.to(DOUBLE)).to(x.format)
    undefined = (x.magnitude() > x.format.infinity - 1) | y.magnitude().equals(0) | y.is_nan()
    return undefined.choose(x.of(math.nan), left)


def _nearest(x: Value) -> Value:
    large = x.of(2.0**x.format.fraction).with_sign(x)
    return (x + large) - large


def _whole(x: Value, near: Value) -> Value:
    """``near`` with the sign of x, or x itself where that is whole, infinite or NaN."""
    large = x.of(2.0**x.format.fraction).bits()
    return (x.magnitude() < large).choose(near.absolute().with_sign(x), x)
