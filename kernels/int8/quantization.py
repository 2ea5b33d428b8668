"""How a tensor of bytes stands for real numbers, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.workload.qconv2d import LIMITS, Byte

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Quantization:
    """``real = (quantum - zero) * scale`` for all of a tensor; the scale is a float32 number.

    Raises ValueError for a scale that is not positive and finite, and a zero that the type does not hold.
    """

    dtype: Byte
    scale: float
    zero: int = 0

    def __post_init__(self) -> None:
        low, high = LIMITS[self.dtype]
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"the scale of a quantized tensor must be positive, got {self.scale}")
        if not low <= self.zero <= high:
            raise ValueError(f"a zero point of {self.dtype} is from {low} to {high}, got {self.zero}")

    def quanta(self, real: Array) -> Array:
        """Nearest quanta, ties to even, saturated: ONNX's QuantizeLinear, whose quotient is float32.

        What is no number becomes the least one.
        """
        low, high = LIMITS[self.dtype]
        with np.errstate(over="ignore"):  # infinity saturates as well
            quotient = np.asarray(real, np.float32) / np.float32(self.scale)
        # Limits before the zero: they are whole, and nothing is too large to convert.
        limited = np.nan_to_num(np.rint(quotient), nan=-np.inf).clip(low - self.zero, high - self.zero)
        result: Array = (limited.astype(np.int32) + self.zero).astype(self.dtype)
        return result

    def real(self, quanta: Array) -> Array:
        """float32 numbers: ONNX's DequantizeLinear."""
        result: Array = (quanta.astype(np.int32) - self.zero).astype(np.float32) * np.float32(self.scale)
        return result

    def all_quanta(self) -> Array:
        """Every value of the type, the lowest first."""
        low, high = LIMITS[self.dtype]
        return np.arange(low, high + 1).astype(self.dtype)
