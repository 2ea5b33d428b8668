"""Activations of networks, of float32: cheaper than the functions that they are made of.

They are right to 2e-7 of the result or, where that is small, of the argument: of SiLU and GELU of -6, say,
fewer digits are right. NaN gives NaN. Without fused multiply-add they lose a digit.
"""

from __future__ import annotations

from collections.abc import Callable

from kernels.emit.vector_math.code import Value
from kernels.emit.vector_math.exponential import LN_2, LOG2_E, expm1, tanh
from kernels.emit.vector_math.logarithm import log1p

FARTHEST = 87.0
"""e to this power and to minus it is a normal number."""
TANH_GELU = (0.7978845608028654, 0.044715)
"""tanh's argument is the first times (x + the second times x cubed)."""
# fmt: off
# e ** r for at most half of ln(2), and 2 ** r for at most a half.
_EXP = (1.0000000720785938, 0.9999996901456406, 0.4999889046800841, 0.16667578359013852,
    0.041915876624500935, 0.008297583738191401)
_EXP2 = (1.0000000720785924, 0.6931469657852691, 0.2402211761792084, 0.05550714482509396,
    0.009675655512805081, 0.001327635782951666)
# (-log2(1 - cdf(x)) - 1) / x of the normal distribution, where gelu(-x) is -x * (1 - cdf(x)).
_TAIL_END = 6.0
_TAIL = (1.1511069921244812, 0.4591911312571946, 0.0525465968507416, -0.007125003476828412,
    0.0001661643643398967, 0.00018805452062583758, -4.593152591027966e-05, 4.945865686944995e-06,
    -2.1371210323639644e-07)
# fmt: on


def sigmoid(x: Value) -> Value:
    """``1 / (1 + e ** -x)``."""
    return 1.0 / (_exp(_within(-x, -FARTHEST, FARTHEST)) + 1.0)


def silu(x: Value, alpha: float) -> Value:
    """``x * sigmoid(alpha * x)``, alpha above zero."""
    above = x.of(-FARTHEST / alpha).most(x)
    return above / (_exp(x.of(-FARTHEST).most(above * -alpha)) + 1.0)


def hard_sigmoid(x: Value, alpha: float, beta: float) -> Value:
    """``clip(alpha * x + beta, 0, 1)``."""
    return _within(x * alpha + beta, 0.0, 1.0)


def hard_swish(x: Value, alpha: float, beta: float) -> Value:
    """``x * hard_sigmoid(x)``."""
    return x * hard_sigmoid(x, alpha, beta)


def gelu(x: Value) -> Value:
    """x times the share of the normal distribution below x."""
    size = x.of(_TAIL_END).least(x.absolute())
    power = size.polynomial(_TAIL) * -size - 1.0
    n, turns = power.rounded()
    tail = (power - n).polynomial(_EXP2) * turns.power_of_two()
    return x.of(0.0).most(x) - size * tail


def tanh_gelu(x: Value) -> Value:
    """``x / 2 * (1 + tanh(u))``, which is x times the sigmoid of 2u."""
    factor, cube = TANH_GELU
    end = 9.9
    above = x.of(-end).most(x)
    inside = x.of(end).least(above)
    u = (inside * inside * (-2.0 * factor * cube) + -2.0 * factor) * inside
    return above / (_exp(u) + 1.0)


def mish(x: Value) -> Value:
    """``x * tanh(log(1 + e ** x))``."""
    above = x.of(-FARTHEST).most(x)
    power = _exp(x.of(FARTHEST / 4).least(above))
    more = power * (power + 2.0)
    return above * (more / (more + 2.0))


def softplus(x: Value) -> Value:
    """``log(1 + e ** x)``."""
    return x.of(0.0).most(x) + log1p(_exp(x.of(-FARTHEST).most(-x.absolute())))


def elu(x: Value, alpha: float) -> Value:
    """x, or below zero ``alpha * (e ** x - 1)``."""
    return (x < 0.0).choose(expm1(x.of(-FARTHEST).most(x)) * alpha, x)


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


def _within(x: Value, low: float, high: float) -> Value:
    return x.of(high).least(x.of(low).most(x))


def _exp(x: Value) -> Value:
    """``e ** x`` for x of a size that keeps it normal."""
    n, turns = (x * LOG2_E).rounded()
    return (x - n * LN_2).polynomial(_EXP) * turns.power_of_two()
