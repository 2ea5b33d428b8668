"""The sum of two quantized tensors, in int32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.quantization import Quantization
from kernels.qworkload import LIMITS, Byte, Range

Array = npt.NDArray[Any]
MULTIPLIER_BITS = 21
"""Of the larger multiplier: two products of 9 bits by 21 and what rounds them fit int32."""
MOST_SHIFT = 30


@dataclass(frozen=True)
class QAdd:
    """``clip((((a - za) * ma + (b - zb) * mb + 2^(shift - 1)) >> shift) + zo)``, ties up, all in int32.

    ``dtypes`` and ``zeros`` are of a, b and the result, which all have ``shape``; ``clamp`` is in quanta.
    Raises ValueError for what does not fit int32.
    """

    shape: tuple[int, ...]
    dtypes: tuple[Byte, Byte, Byte]
    zeros: tuple[int, int, int]
    multipliers: tuple[int, int]
    shift: int
    clamp: Range

    def __post_init__(self) -> None:
        if not all(0 <= multiplier < 1 << MULTIPLIER_BITS for multiplier in self.multipliers):
            raise ValueError(
                f"multipliers of a quantized sum are below 2^{MULTIPLIER_BITS}, got {self.multipliers}"
            )
        if not 1 <= self.shift <= MOST_SHIFT:
            raise ValueError(f"the shift of a quantized sum is from 1 to {MOST_SHIFT}, got {self.shift}")

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        a: Quantization,
        b: Quantization,
        out: Quantization,
        clamp: Range | None = None,
    ) -> QAdd:
        """The sum of real numbers ``a + b`` as ``out``; ValueError where its scale is far too small."""
        ratios = a.scale / out.scale, b.scale / out.scale
        shift = min(MULTIPLIER_BITS - math.frexp(max(ratios))[1], MOST_SHIFT)
        most = (1 << MULTIPLIER_BITS) - 1
        first, second = (min(math.floor(math.ldexp(ratio, shift) + 0.5), most) for ratio in ratios)
        return cls(
            shape,
            (a.dtype, b.dtype, out.dtype),
            (a.zero, b.zero, out.zero),
            (first, second),
            shift,
            clamp or LIMITS[out.dtype],
        )

    def reference(self, a: Array, b: Array) -> Array:
        """The result for arrays of ``shape``."""
        first, second = (
            (array.astype(np.int64) - zero) * multiplier
            for array, zero, multiplier in zip((a, b), self.zeros[:2], self.multipliers, strict=True)
        )
        scaled = (first + second + (1 << (self.shift - 1))) >> self.shift
        result: Array = (scaled + self.zeros[2]).clip(*self.clamp).astype(self.dtypes[2])
        return result
