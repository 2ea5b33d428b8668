"""What is fused after a float product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from kernels.workload.activation import Activation
from kernels.workload.checked import STRICT_FIELDS


@dataclass(frozen=True)
class Epilogue:
    """What is fused after the product, always in this order: + bias, + residual, activation, clamp.

    ``bias`` is one value a channel (conv) or a column (gemm); ``residual`` has the output's shape, and comes
    behind the activation where it is ``late``. ``clamp`` is ``(low, high)`` with ``None`` for an open end:
    relu is ``(0.0, None)``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    bias: bool = False
    residual: bool = False
    clamp: tuple[float | None, float | None] | None = None
    activation: Activation | None = None
    late: bool = False

    def __post_init__(self) -> None:
        if self.late and (self.activation is None or not self.residual):
            raise ValueError("epilogue late is of a residual behind an activation, and one is missing")
        if self.clamp is None:
            return
        low, high = (None if end is None else float(end) for end in self.clamp)
        if low is not None and high is not None and low > high:
            raise ValueError(f"epilogue clamp is empty: low {low} is above high {high}")
        object.__setattr__(self, "clamp", None if low is None and high is None else (low, high))

    @property
    def slope(self) -> bool:
        """Whether there is one value a channel for the activation."""
        return self.activation is not None and self.activation.has_slope

    @property
    def words(self) -> list[str]:
        """What it does, in order, for people."""
        words = ["bias"] * self.bias + ["residual"] * (self.residual and not self.late)
        if self.activation is not None:
            words.append(self.activation.kind)
        words += ["residual"] * self.late
        if self.clamp is not None:
            words.append("relu" if self.clamp == RELU else "clip")
        return words


RELU = (0.0, None)


def suffix(epilogue: Epilogue) -> str:
    """The epilogue as it ends the name of a workload."""
    return "".join(f" +{word}" for word in epilogue.words)
