"""What is fused after a float product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from kernels.workload.checked import STRICT_FIELDS


@dataclass(frozen=True)
class Epilogue:
    """What is fused after the product, always in this order: + bias, + residual, clamp.

    ``bias`` is one value a channel (conv) or a column (gemm); ``residual`` has the output's shape.
    ``clamp`` is ``(low, high)`` with ``None`` for an open end: relu is ``(0.0, None)``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS

    bias: bool = False
    residual: bool = False
    clamp: tuple[float | None, float | None] | None = None

    def __post_init__(self) -> None:
        if self.clamp is None:
            return
        low, high = (None if end is None else float(end) for end in self.clamp)
        if low is not None and high is not None and low > high:
            raise ValueError(f"epilogue clamp is empty: low {low} is above high {high}")
        object.__setattr__(self, "clamp", None if low is None and high is None else (low, high))


RELU = (0.0, None)


def suffix(epilogue: Epilogue) -> str:
    """The epilogue as it ends the name of a workload."""
    parts = ["bias"] * epilogue.bias + ["residual"] * epilogue.residual
    if epilogue.clamp == RELU:
        parts.append("relu")
    elif epilogue.clamp is not None:
        parts.append("clip")
    return "".join(f" +{part}" for part in parts)
