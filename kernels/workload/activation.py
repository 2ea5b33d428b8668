"""Functions of single values that may follow a float product."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from kernels.workload.checked import STRICT_FIELDS

Kind = Literal[
    "silu",
    "hard_swish",
    "hard_sigmoid",
    "sigmoid",
    "tanh",
    "gelu",
    "tanh_gelu",
    "mish",
    "softplus",
    "elu",
    "leaky_relu",
    "prelu",
]
PARAMETERS: dict[Kind, tuple[str, ...]] = {
    "silu": ("alpha",),
    "hard_swish": ("alpha", "beta"),
    "hard_sigmoid": ("alpha", "beta"),
    "elu": ("alpha",),
    "leaky_relu": ("alpha",),
}
"""The numbers that a kind takes; kinds that are not listed take none."""


@dataclass(frozen=True)
class Activation:
    """A function of x, with one value a channel beside it in the case of ``prelu``.

    ``silu`` is x * sigmoid(alpha * x), alpha above zero; ``hard_sigmoid`` clip(alpha * x + beta, 0, 1), and
    ``hard_swish`` that times x. ``gelu`` is by erf, ``tanh_gelu`` by tanh, ``mish`` x * tanh(softplus(x)).
    ``elu`` and ``leaky_relu`` are x above zero, and below alpha * (e**x - 1) and alpha * x; ``prelu`` is
    x above zero, and below x times the channel's slope.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    kind: Kind
    alpha: float | None = None
    beta: float | None = None

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if (value is not None) != (name in PARAMETERS.get(self.kind, ())):
                wanted = "no" if value is not None else "an"
                raise ValueError(f"activation {self.kind} takes {wanted} {name}")
            if value is not None and not math.isfinite(value):
                raise ValueError(f"activation {self.kind} {name} must be finite, got {value}")
        if self.kind == "silu" and self.alpha is not None and self.alpha <= 0:
            raise ValueError(f"activation silu alpha must be above zero, got {self.alpha}")

    @property
    def has_slope(self) -> bool:
        """Whether it takes one value a channel."""
        return self.kind == "prelu"

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that it takes, alpha first."""
        return tuple(value for value in (self.alpha, self.beta) if value is not None)
