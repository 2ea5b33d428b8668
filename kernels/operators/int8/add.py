"""The sum of two quantized tensors, in int32."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tvm import tirx

from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.tir import const, convert
from kernels.emit.types import Index, PrimFunc
from kernels.int8.quantization import Quantization
from kernels.int8.saturate import saturated
from kernels.operators.int8.base import Array, QOperator, stored
from kernels.operators.int8.pairs import check_second, check_zeros, each_pair
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS, Byte, Range

MULTIPLIER_BITS = 21
"""Of the larger multiplier: two products of 9 bits by 21 and what rounds them fit int32."""
MOST_SHIFT = 30


@dataclass(frozen=True)
class QAdd(QOperator):
    """``clip((((a - za) * ma + (b - zb) * mb + 2^(shift - 1)) >> shift) + zo)``, ties up, all in int32.

    ``dtypes`` and ``zeros`` are of a, b and the result. These have ``shape``, b as well unless ``second`` is
    its own: one number for each plane. ``clamp`` is in quanta. Raises ValueError for what does not fit int32.
    """

    shape: tuple[int, ...]
    dtypes: tuple[Byte, Byte, Byte]
    zeros: tuple[int, int, int]
    multipliers: tuple[int, int]
    shift: int
    clamp: Range
    second: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not all(0 <= multiplier < 1 << MULTIPLIER_BITS for multiplier in self.multipliers):
            raise ValueError(
                f"multipliers of a quantized sum are below 2^{MULTIPLIER_BITS}, got {self.multipliers}"
            )
        if not 1 <= self.shift <= MOST_SHIFT:
            raise ValueError(f"the shift of a quantized sum is from 1 to {MOST_SHIFT}, got {self.shift}")
        check_zeros(self.dtypes, self.zeros)
        check_second(self.shape, self.second or self.shape)

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        a: Quantization,
        b: Quantization,
        out: Quantization,
        clamp: Range | None = None,
        second: tuple[int, ...] | None = None,
    ) -> QAdd:
        """The sum of real numbers ``a + b`` as ``out``; ValueError where its scale is far too small."""
        ratios = a.scale / out.scale, b.scale / out.scale
        shift = min(MULTIPLIER_BITS - math.frexp(max(ratios))[1], MOST_SHIFT)
        most = (1 << MULTIPLIER_BITS) - 1
        factors = tuple(min(math.floor(math.ldexp(ratio, shift) + 0.5), most) for ratio in ratios)
        return cls(
            shape,
            (a.dtype, b.dtype, out.dtype),
            (a.zero, b.zero, out.zero),
            (factors[0], factors[1]),
            shift,
            clamp or LIMITS[out.dtype],
            second,
        )

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return self.shape

    @property
    def result_dtype(self) -> str:
        """Type of the result."""
        return self.dtypes[2]

    def reference(self, *inputs: Array) -> Array:
        """The result for two arrays, of ``shape`` and ``second``."""
        first, second = (
            (array.astype(np.int64) - zero) * multiplier
            for array, zero, multiplier in zip(inputs, self.zeros[:2], self.multipliers, strict=True)
        )
        scaled = (first + second + (1 << (self.shift - 1))) >> self.shift
        result: Array = (scaled + self.zeros[2]).clip(*self.clamp).astype(self.dtypes[2])
        return result

    def build(self, target: Target, threads: int, name: str) -> PrimFunc:
        """As of any operator: two tensors and the result."""
        second = self.second or self.shape
        shapes = {"a": stored(self.shape), "b": stored(second), "out": stored(self.shape)}
        function = Function(name, shapes, dict(zip(shapes, self.dtypes, strict=True)))
        # All that does not depend on the data in one constant. It fits, and so does what is added to it in
        # turn: both are within two products of 9 bits by 21 and half a quantum.
        before = (1 << (self.shift - 1)) - sum(
            zero * multiplier for zero, multiplier in zip(self.zeros[:2], self.multipliers, strict=True)
        )
        after = self.zeros[2]
        if sum(self.multipliers) * 255 + (1 << self.shift) + (abs(after) << self.shift) < 1 << 31:
            before, after = before + (after << self.shift), 0
        with function as (a, b, out):

            def emit(first: Index, other: Index, width: int) -> None:
                at = tir.vector(first, width)
                value = const(before, lanes=width)
                operands = a[at], b[tir.vector(other, width)]
                for operand, multiplier in zip(operands, self.multipliers, strict=True):
                    value = value + convert(operand, "int32", width) * const(multiplier, lanes=width)
                value = tirx.shift_right(value, const(self.shift, lanes=width))
                if after:
                    value = value + const(after, lanes=width)
                tir.store(out, saturated(value, self.dtypes[2], self.clamp, width), at)

            each_pair(self.shape, second, target.lanes("uint8"), threads, emit)
        return function.result()
