"""Any function of one quantized tensor's elements, as a table of its 256 values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.quantization import Quantization
from kernels.qworkload import LIMITS, Byte

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class QLookup:
    """``table[value - lowest value of dtype]`` for each element of a tensor of ``shape``.

    Raises ValueError for a table that is not 256 values of ``out_dtype``.
    """

    shape: tuple[int, ...]
    dtype: Byte
    out_dtype: Byte
    table: tuple[int, ...]

    def __post_init__(self) -> None:
        low, high = LIMITS[self.out_dtype]
        if len(self.table) != 256 or min(self.table) < low or max(self.table) > high:
            raise ValueError(f"a table has 256 values from {low} to {high}, got {len(self.table)} others")

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        data: Quantization,
        out: Quantization,
        function: Callable[[Array], Array],
    ) -> QLookup:
        """``function`` of float32 arrays, between the real numbers that ``data`` and ``out`` stand for."""
        values = out.quanta(function(data.real(data.all_quanta())))
        return cls(shape, data.dtype, out.dtype, tuple(int(value) for value in values))

    def reference(self, data: Array) -> Array:
        """The result for an array of ``shape``."""
        table = np.array(self.table, self.out_dtype)
        result: Array = table[data.astype(np.int64) - LIMITS[self.dtype][0]]
        return result
