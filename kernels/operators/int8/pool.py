"""Max and average pooling of quantized tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.emit.function import Function
from kernels.emit.types import PrimFunc
from kernels.int8.quantization import Quantization
from kernels.int8.reference import fixed_point, multiply
from kernels.operators.int8.base import Array, QOperator, stored
from kernels.operators.int8.pool_nest import Mean, count_of, counts, emit_pool, inside, why_not_emitted
from kernels.operators.pool import Pool
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS, Byte


@dataclass(frozen=True)
class QPool(QOperator):
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
        check_pool(self.pool)
        same = self.dtype == self.out_dtype and self.zeros[0] == self.zeros[1]
        if self.pool.kind == "max" and (not same or self.scales):
            raise ValueError("max pooling keeps the quantization of its data")
        if self.pool.kind == "average" and [scale[0] for scale in self.scales] != counts(self.pool):
            raise ValueError(f"average pooling needs scales for {counts(self.pool)} elements")
        if 255 * counts(self.pool)[0] >= 1 << 31:
            raise ValueError("the sum over a window does not fit int32")

    @classmethod
    def of(cls, pool: Pool, data: Quantization, out: Quantization) -> QPool:
        """Pooling of real numbers, from ``data`` to ``out``; for ``max`` they must be the same."""
        if pool.kind == "max":
            if data != out:
                raise ValueError("max pooling keeps the quantization of its data")
            return cls(pool, data.dtype, out.dtype, (data.zero, out.zero))
        check_pool(pool)
        numbers = counts(pool)
        factors = fixed_point(data.scale / out.scale / np.array(numbers, np.float64))
        scales = zip(numbers, *(factor.tolist() for factor in factors), strict=True)
        return cls(pool, data.dtype, out.dtype, (data.zero, out.zero), tuple(scales))

    @property
    def out_shape(self) -> tuple[int, ...]:
        """(n, c, rows, columns) of the result."""
        return self.pool.out_shape

    @property
    def result_dtype(self) -> str:
        """Type of the result."""
        return self.out_dtype

    def build(self, target: Target, threads: int, name: str) -> PrimFunc:
        """As of any operator: a tensor and the result."""
        shapes = {"data": stored(self.pool.shape), "out": stored(self.pool.out_shape)}
        function = Function(name, shapes, {"data": self.dtype, "out": self.out_dtype})
        with function as (data, out):
            factors = {count: (multiplier, shift) for count, multiplier, shift in self.scales}
            mean = Mean(self.zeros, factors, self.out_dtype) if self.scales else None
            emit_pool(self.pool, data, out, mean, target, threads)
        return function.result()

    def reference(self, *inputs: Array) -> Array:
        """The result, of ``pool.out_shape``, for one array of ``pool.shape``."""
        (data,) = inputs
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
                count = count_of(self.pool, bottom - top, right - left)
                sums = (window - self.zeros[0]).sum((2, 3))
                scaled = multiply(sums, factors[count][:1], factors[count][1:]) + self.zeros[1]
                result[:, :, row, column] = scaled.clip(*LIMITS[self.out_dtype])
        return result


def check_pool(pool: Pool) -> None:
    """Raises ValueError for pooling without results, or without code."""
    why_not = "nothing is pooled" if min(pool.shape) < 1 else pool.why_not() or why_not_emitted(pool)
    if why_not is not None:
        raise ValueError(why_not)
