"""exp, exp2, exp10, sigmoid and tanh.

All split x into whole powers of two and a rest of at most half of one, whose exponential is a polynomial.
Results below the smallest normal number are rounded like others; NaN gives NaN.
"""

from __future__ import annotations

from typing import NamedTuple

from kernels.emit.vector_math.code import DOUBLE, SINGLE, Value

LOG2_E = 1.4426950408889634
LOG2_10 = 3.321928094887362
LN_2 = 0.6931471805599453
LN_10 = 2.302585092994046


class _Constants(NamedTuple):
    """``ln_2`` and ``log10_2`` are sums, the first so short that small whole numbers times it are exact.

    ``rest`` is (e**r - 1 - r) / r**2 for at most ln(2) / 2. ``tanh`` is (tanh(x) - x) / x**3 of x**2, for x
    up to 0.625. Powers of two beyond ``least`` and ``most`` are 0 and infinity.
    """

    ln_2: tuple[float, float]
    log10_2: tuple[float, float]
    least: float
    most: float
    rest: tuple[float, ...]
    tanh: tuple[float, ...]


# fmt: off
_CONSTANTS = {
    SINGLE: _Constants(
        (0.693359375, -2.12194440054690583e-4),
        (0.30078125, 2.4874566398119521e-4),
        -151.0,
        129.0,
        (0.4999999804169093, 0.16666538681068457, 0.04166722130529535, 0.008367180999529314,
            0.001388239324400387),
        (-0.33333281940181975, 0.1333144215753188, -0.05373971215652174, 0.020639078740465108,
            -0.0057049783732614585),
    ),
    DOUBLE: _Constants(
        (0.69314718036912382, 1.9082149292705877e-10),
        (0.30102999566383914, 1.4205023227266099e-13),
        -1076.0,
        1025.0,
        (0.5, 0.16666666666666685, 0.04166666666666603, 0.008333333333315464, 0.001388888888913428,
            0.00019841269900570387, 2.4801586906341484e-05, 2.7557230523222676e-06,
            2.755758740636951e-07, 2.5113575410776932e-08, 2.082803674895968e-09),
        (-0.33333333333333315, 0.13333333333329714, -0.05396825396604339, 0.02186948846831523,
            -0.008863234306582268, 0.0035921139434249164, -0.0014557256001305108, 0.0005894503735636343,
            -0.00023700788350597337, 9.155184237890459e-05, -3.018078647678111e-05, 6.039715373924118e-06),
    ),
}
# fmt: on


def exp(x: Value) -> Value:
    """``e ** x``."""
    n, _, rest = _split(_inside(x, LN_2))
    return _scaled(_short_expm1(rest) + 1.0, n)


def exp2(x: Value) -> Value:
    """``2 ** x``."""
    inside = _inside(x, 1.0)
    n, _ = inside.rounded()
    return _scaled(_short_expm1((inside - n) * LN_2) + 1.0, n)


def exp10(x: Value) -> Value:
    """``10 ** x``."""
    first, second = _CONSTANTS[x.format].log10_2
    inside = _inside(x, LN_2 / LN_10)
    n, _ = (inside * LOG2_10).rounded()
    rest = inside - n * first - n * second
    return _scaled(_short_expm1(rest * LN_10) + 1.0, n)


def sigmoid(x: Value) -> Value:
    """``1 / (1 + e ** -x)``, by the exponential that does not overflow."""
    n, _, rest = _split((-x.absolute()).at_least(_CONSTANTS[x.format].least * LN_2))
    small = _scaled(_short_expm1(rest) + 1.0, n)
    # small / (1 + small) or 1 / (1 + small), with the rounding of the quotient in the smaller term.
    of = (x < 0.0).choose(small, 1.0)
    return of - of * (small / (small + 1.0))


def tanh(x: Value) -> Value:
    """The hyperbolic tangent: a polynomial for small x, else ``1 - 2y / (1 + y)`` with ``y = e ** -2x``."""
    size = x.absolute()
    square = size * size
    small = square.polynomial(_CONSTANTS[x.format].tanh) * (square * size) + size
    # Beyond this it is 1.
    _, turns, rest = _split(size.at_most(0.4 * x.format.fraction) * -2.0)
    y = (_short_expm1(rest) + 1.0) * turns.power_of_two()
    large = 1.0 - (y + y) / (y + 1.0)
    return x.is_nan().choose(x, (size < 0.625).choose(small, large).with_sign(x))


def expm1(x: Value) -> Value:
    """``e ** x - 1`` for x of a size that keeps ``e ** x`` normal."""
    _, turns, rest = _split(x)
    power = turns.power_of_two()
    return _short_expm1(rest) * power + (power - 1.0)


def _inside(x: Value, base: float) -> Value:
    """``x`` no further out than where the results are 0 and infinity; NaN stays NaN."""
    constants = _CONSTANTS[x.format]
    return x.at_least(constants.least * base).at_most(constants.most * base)


def _split(x: Value) -> tuple[Value, Value, Value]:
    """n, n plus ``rounder``, and r, so that ``x = n * ln(2) + r``."""
    first, second = _CONSTANTS[x.format].ln_2
    n, turns = (x * LOG2_E).rounded()
    return n, turns, x - n * first - n * second


def _short_expm1(r: Value) -> Value:
    """``e ** r - 1`` for at most half of ln(2)."""
    return r.polynomial(_CONSTANTS[r.format].rest) * (r * r) + r


def _scaled(value: Value, n: Value) -> Value:
    """``value * 2**n``, without an instruction in two steps, as 2**n itself may be no normal number."""
    if (scaled := value.scaled(n)) is not None:
        return scaled
    half, turns = (n * 0.5).rounded()
    other = n - half + n.format.rounder
    return value * turns.power_of_two() * other.power_of_two()
