"""Activations in plain numpy and float64: the yardstick of those in epilogues."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kernels.workload.activation import Activation

Precise = npt.NDArray[np.float64]

erf = np.vectorize(math.erf, otypes=[np.float64])
"""The error function of each element."""


def activated(activation: Activation, x: Precise, slope: Precise | None = None) -> Precise:
    """``activation`` of ``x``; ``slope`` is that of ``prelu``, of a shape that broadcasts to that of x."""
    if slope is not None:
        return np.where(x < 0, slope * x, x)
    return _WRITTEN[activation.kind](x, *activation.numbers)


def _sigmoid(x: Precise) -> Precise:
    small: Precise = np.exp(-np.abs(x))
    larger: Precise = np.where(x < 0, small, 1.0)
    return larger / (1 + small)


def _hard_sigmoid(x: Precise, alpha: float, beta: float) -> Precise:
    return np.clip(alpha * x + beta, 0, 1)


def _softplus(x: Precise) -> Precise:
    return np.logaddexp(0, x)


_WRITTEN: dict[str, Callable[..., Precise]] = {
    "silu": lambda x, alpha: x * _sigmoid(alpha * x),
    "hard_swish": lambda x, alpha, beta: x * _hard_sigmoid(x, alpha, beta),
    "hard_sigmoid": _hard_sigmoid,
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "gelu": lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))),
    "tanh_gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "softplus": _softplus,
    "elu": lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x),
    "leaky_relu": lambda x, alpha: np.where(x < 0, alpha * x, x),
}
