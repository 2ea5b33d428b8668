"""The functions of a recurrent cell, by the names that ONNX gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tvm import tirx
from kernels.emit.types import Expr


@dataclass(frozen=True)
class Cell:
    """A function of one float32, such as ``Sigmoid``."""

    name: str
    alpha: float
    beta: float

    def __call__(self, value: Expr) -> Expr:
        """The function of ``value``."""
        return _FUNCTIONS[self.name](value, self.alpha, self.beta)


def _times(factor: float, value: Expr) -> Expr:
    """The product; by 0, for which TVM writes 0, it is NaN of what is not finite."""
    if factor:
        return tir.number(factor) * value
    finite = tirx.abs(value) < tir.number(float("inf"))
    return tirx.Select(finite, tir.number(0.0), tir.number(float("nan")))


def _above(value: Expr, limit: float = 0.0) -> Expr:
    return tirx.Max(value, tir.number(limit))


def _softplus(value: Expr) -> Expr:
    """log(1 + e^x), without overflow."""
    return _above(value) + tirx.log(tir.number(1.0) + tirx.exp(tir.number(0.0) - tirx.abs(value)))


_FUNCTIONS: dict[str, Callable[[Expr, float, float], Expr]] = {
    "Affine": lambda x, a, b: _times(a, x) + tir.number(b),
    "Elu": lambda x, a, b: _above(x) + _times(a, tirx.exp(tirx.Min(x, tir.number(0.0))) - tir.number(1.0)),
    "HardSigmoid": lambda x, a, b: tirx.Min(_above(_times(a, x) + tir.number(b)), tir.number(1.0)),
    "LeakyRelu": lambda x, a, b: _above(x) + _times(a, tirx.Min(x, tir.number(0.0))),
    "Relu": lambda x, a, b: _above(x),
    "ScaledTanh": lambda x, a, b: _times(a, tirx.tanh(_times(b, x))),
    "Sigmoid": lambda x, a, b: tirx.sigmoid(x),
    "Softplus": lambda x, a, b: _softplus(x),
    "Softsign": lambda x, a, b: x / (tir.number(1.0) + tirx.abs(x)),
    "Tanh": lambda x, a, b: tirx.tanh(x),
    "ThresholdedRelu": lambda x, a, b: tirx.Select(x > tir.number(a), x, tir.number(0.0)),
}
