"""Activations of networks, of float32: cheaper than the functions that they are made of.

They are right to 2e-7 of the result or, where that is small, of the argument: of SiLU and GELU of -6, say,
fewer digits are right. NaN gives NaN. Without fused multiply-add they lose a digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from numpy.polynomial import Polynomial

from kernels.emit.vector_math.code import Value
from kernels.emit.vector_math.exponential import LOG2_E, expm1, tanh
from kernels.emit.vector_math.logarithm import log1p

FARTHEST = 87.0
"""e to this power and to minus it is a normal number."""
TANH_GELU = (0.7978845608028654, 0.044715)
"""tanh's argument is the first times (x + the second times x cubed)."""
# fmt: off
# 2 ** r for at most a half.
_EXP2 = (1.0000000720785924, 0.6931469657852691, 0.2402211761792084, 0.05550714482509396,
    0.009675655512805081, 0.001327635782951666)
# (-log2(1 - cdf(x)) - 1) / x of the normal distribution, where gelu(-x) is -x * (1 - cdf(x)), so that cdf is
# off by at most 4e-8.
_TAIL_END = 6.0
_TAIL = (1.1511088388049786, 0.4591643235250857, 0.0526666066783472, -0.007363124880939378,
    0.0004069801312929355, 5.769703860056354e-05, -8.858405308171798e-06)
# fmt: on
_EXP2_ABOVE = tuple(Polynomial(_EXP2)(Polynomial((-0.5, 1))).coef.tolist())
"""2 ** (r - 0.5) for r from 0 to 1."""


def sigmoid(x: Value) -> Value:
    """``1 / (1 + e ** -x)``."""
    return 1.0 / (_exp(_within(-x, -FARTHEST, FARTHEST)) + 1.0)


def silu(x: Value, alpha: float) -> Value:
    """``x * sigmoid(alpha * x)``, alpha above zero."""
    above = x.at_least(-FARTHEST / alpha)
    return _product(x, above / (_exp((above * -alpha).at_least(-FARTHEST)) + 1.0))


def hard_sigmoid(x: Value, alpha: float, beta: float) -> Value:
    """``clip(alpha * x + beta, 0, 1)``."""
    return _within(x * alpha + beta, 0.0, 1.0)


def hard_swish(x: Value, alpha: float, beta: float) -> Value:
    """``x * hard_sigmoid(x)``."""
    return x * hard_sigmoid(x, alpha, beta)


def gelu(x: Value) -> Value:
    """x times the share of the normal distribution below x."""
    size = x.absolute().at_most(_TAIL_END)
    tail = _exp2(size.polynomial(_TAIL) * -size, -1.0)
    return _product(x, x.at_least(0.0) - size * tail)


def tanh_gelu(x: Value) -> Value:
    """``x / 2 * (1 + tanh(u))``, which is x times the sigmoid of 2u."""
    factor, cube = TANH_GELU
    end = 9.9
    above = x.at_least(-end)
    inside = above.at_most(end)
    u = (inside * inside * (-2.0 * factor * cube) + -2.0 * factor) * inside
    return _product(x, above / (_exp(u) + 1.0))


def mish(x: Value) -> Value:
    """``x * tanh(log(1 + e ** x))``."""
    above = x.at_least(-FARTHEST)
    power = _exp(above.at_most(FARTHEST / 4))
    more = power * (power + 2.0)
    return _product(x, above * (more / (more + 2.0)))


def softplus(x: Value) -> Value:
    """``log(1 + e ** x)``."""
    return x.at_least(0.0) + log1p(_exp((-x.absolute()).at_least(-FARTHEST)))


def elu(x: Value, alpha: float) -> Value:
    """x, or below zero ``alpha * (e ** x - 1)``."""
    return (x < 0.0).choose(expm1(x.at_least(-FARTHEST)) * alpha, x)


def leaky_relu(x: Value, alpha: float) -> Value:
    """x, or below zero ``alpha * x``."""
    return (x < 0.0).choose(x * alpha, x)


def prelu(x: Value, slope: Value) -> Value:
    """x, or below zero ``slope * x``."""
    return (x < 0.0).choose(x * slope, x)


WRITTEN: dict[str, Callable[..., Value]] = {
    each.__name__: each
    for each in (
        *(sigmoid, silu, hard_sigmoid, hard_swish, gelu, tanh_gelu, mish, softplus),
        *(tanh, elu, leaky_relu, prelu),
    )
}
"""By the activation's kind: takes x, the slope of prelu, then the numbers."""


def _product(x: Value, value: Value) -> Value:
    """``value``, a product of x and what is zero for minus infinity: NaN there."""
    return x.equals(-math.inf).choose(x.of_bits(-1).number(), value)  # all bits: LLVM puts in no choice


def _within(x: Value, low: float, high: float) -> Value:
    return x.at_least(low).at_most(high)


def _exp(x: Value) -> Value:
    """``e ** x`` for x of a size that keeps it normal, off by that part of it and of x."""
    return _exp2(x * LOG2_E, 0.0)


def _exp2(x: Value, more: float) -> Value:
    """``2 ** (x + more)``, where that is normal."""
    above = x + (more + 0.5)
    if (rest := above.fraction()) is not None:
        power = rest.polynomial(_EXP2_ABOVE).scaled(above)
        assert power is not None
        return power
    power = x + more if more else x
    n, turns = power.rounded()
    return (power - n).polynomial(_EXP2) * turns.power_of_two()
