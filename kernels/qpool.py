"""Max and average pooling of quantized tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.pool import Pool
from kernels.qreference import fixed_point, multiply
from kernels.quantization import Quantization
from kernels.qworkload import LIMITS, Byte

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class QPool:
    """Pooling as ``pool`` says (NCHW shapes), of bytes.

    ``max``: of the bytes themselves, so both types and zeros are the same, and there are no ``scales``.
    ``average``: ``clip(round(sum of (x - zero) * multiplier * 2^(-31 - shift)) + out zero)``, ties up, over
    the elements of a window inside the plane; ``scales`` has (count, multiplier, shift) for each count of
    elements that a mean is of, the largest first. Raises ValueError for what is neither.
    """

    pool: Pool
    dtype: Byte
    out_dtype: Byte
    zeros: tuple[int, int]
    scales: tuple[tuple[int, int, int], ...] = ()

    def __post_init__(self) -> None:
        why_not = self.pool.why_not()
        if why_not is not None:
            raise ValueError(why_not)
        same = self.dtype == self.out_dtype and self.zeros[0] == self.zeros[1]
        if self.pool.kind == "max" and (not same or self.scales):
            raise ValueError("max pooling keeps the quantization of its data")
        if self.pool.kind == "average" and [scale[0] for scale in self.scales] != counts(self.pool):
            raise ValueError(f"average pooling needs scales for {counts(self.pool)} elements")

    @classmethod
    def of(cls, pool: Pool, data: Quantization, out: Quantization) -> QPool:
        """Pooling of real numbers, from ``data`` to ``out``; for ``max`` they must be the same."""
        if pool.kind == "max":
            if data != out:
                raise ValueError("max pooling keeps the quantization of its data")
            return cls(pool, data.dtype, out.dtype, (data.zero, out.zero))
        numbers = counts(pool)
        factors = fixed_point(data.scale / out.scale / np.array(numbers, np.float64))
        scales = zip(numbers, *(factor.tolist() for factor in factors), strict=True)
        return cls(pool, data.dtype, out.dtype, (data.zero, out.zero), tuple(scales))

    def reference(self, data: Array) -> Array:
        """The result, of ``pool.out_shape``, for an array of ``pool.shape``."""
        n, c = self.pool.shape[:2]
        result = np.empty((n, c, *self.pool.out), self.out_dtype)
        factors = {count: np.array(factor, np.int32) for count, *factor in self.scales}
        for row in range(self.pool.out[0]):
            top, bottom = inside(self.pool, 0, row)
            for column in range(self.pool.out[1]):
                left, right = inside(self.pool, 1, column)
                window = data[:, :, top:bottom, left:right].astype(np.int64)
                if self.pool.kind == "max":
                    result[:, :, row, column] = window.max((2, 3))
                    continue
                count = _count(self.pool, bottom - top, right - left)
                sums = (window - self.zeros[0]).sum((2, 3))
                scaled = multiply(sums, factors[count][:1], factors[count][1:]) + self.zeros[1]
                result[:, :, row, column] = scaled.clip(*LIMITS[self.out_dtype])
        return result


def inside(pool: Pool, axis: int, at: int) -> tuple[int, int]:
    """(first, end) of the rows (axis 0) or columns (1) of the input that window ``at`` has."""
    start = at * pool.stride[axis] - pool.pad[axis]
    return max(0, start), min(pool.shape[2 + axis], start + pool.window[axis])


def counts(pool: Pool) -> list[int]:
    """How many elements a mean may be of, the largest first."""
    extents = [
        {end - first for first, end in (inside(pool, axis, at) for at in range(pool.out[axis]))}
        for axis in (0, 1)
    ]
    return sorted(
        {_count(pool, rows, columns) for rows in extents[0] for columns in extents[1]}, reverse=True
    )


def _count(pool: Pool, rows: int, columns: int) -> int:
    return pool.window[0] * pool.window[1] if pool.counted else rows * columns
