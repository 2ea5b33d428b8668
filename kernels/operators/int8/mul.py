"""The product of two quantized tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernels.emit import tir
from kernels.emit.function import Function
from kernels.emit.tir import const, convert
from kernels.emit.types import Index, PrimFunc
from kernels.int8.quantization import Quantization
from kernels.int8.reference import fixed_point, multiply
from kernels.int8.saturate import saturated
from kernels.operators.int8.base import Array, QOperator, stored
from kernels.operators.int8.pairs import check_second, check_zeros, each_pair
from kernels.operators.int8.scale import scaled
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS, Byte, Range

LARGEST = 255 * 255
"""Of the products of two elements, less their zeros."""


@dataclass(frozen=True)
class QMul(QOperator):
    """``clip(round((a - za) * (b - zb) * multiplier * 2^(-31 - shift)) + zo)``, ties up.

    ``dtypes`` and ``zeros`` are of a, b and the result. These have ``shape``, and b has that of ``second``:
    the same, or one number for each plane. ``clamp`` is in quanta. Raises ValueError for anything else.
    """

    shape: tuple[int, ...]
    second: tuple[int, ...]
    dtypes: tuple[Byte, Byte, Byte]
    zeros: tuple[int, int, int]
    multiplier: int
    shift: int
    clamp: Range

    def __post_init__(self) -> None:
        check_second(self.shape, self.second)
        check_zeros(self.dtypes, self.zeros)
        if not (0 <= self.multiplier < 1 << 31 and -31 <= self.shift <= 31):
            raise ValueError(
                "a quantized product has a multiplier of 31 bits and a shift from -31 to 31, "
                f"got {self.multiplier} and {self.shift}"
            )

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        a: Quantization,
        b: Quantization,
        out: Quantization,
        clamp: Range | None = None,
        second: tuple[int, ...] | None = None,
    ) -> QMul:
        """The product of real numbers ``a * b`` as ``out``; ValueError where its scale is far too small."""
        multiplier, shift = (int(v.item()) for v in fixed_point(np.array([a.scale * b.scale / out.scale])))
        return cls(
            shape,
            second or shape,
            (a.dtype, b.dtype, out.dtype),
            (a.zero, b.zero, out.zero),
            multiplier,
            shift,
            clamp or LIMITS[out.dtype],
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
            array.astype(np.int64) - zero for array, zero in zip(inputs, self.zeros[:2], strict=True)
        )
        whole = multiply(first * second, np.array(self.multiplier), np.array(self.shift)) + self.zeros[2]
        result: Array = whole.clip(*self.clamp).astype(self.dtypes[2])
        return result

    def build(self, target: Target, threads: int, name: str) -> PrimFunc:
        """As of any operator: two tensors and the result."""
        shapes = {"a": stored(self.shape), "b": stored(self.second), "out": stored(self.shape)}
        function = Function(name, shapes, dict(zip(shapes, self.dtypes, strict=True)))
        with function as (a, b, out):

            def emit(first: Index, other: Index, width: int) -> None:
                at = tir.vector(first, width)
                operands = a[at], b[tir.vector(other, width)]
                # Nine bits each: words, whose products take fewer instructions than those of int32.
                one, two = (
                    convert(convert(operand, "int16", width) - const(zero, "int16", width), "int32", width)
                    for operand, zero in zip(operands, self.zeros[:2], strict=True)
                )
                value = scaled(one * two, LARGEST, self.multiplier, self.shift, width)
                value = value + const(self.zeros[2], lanes=width)
                tir.store(out, saturated(value, self.dtypes[2], self.clamp, width), at)

            each_pair(self.shape, self.second, target.lanes("uint8"), threads, emit)
        return function.result()
