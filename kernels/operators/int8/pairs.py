"""What sums and products of two quantized tensors have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np

from kernels.emit import tir
from kernels.emit.elements import each_vector, threads_for
from kernels.emit.function import Function
from kernels.emit.tvm import T
from kernels.emit.types import Index, PrimFunc, Vector
from kernels.int8.quantization import Quantization
from kernels.int8.saturate import saturated
from kernels.operators.int8.base import Array, QOperator, stored
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS, Byte, Range

Shape = tuple[int, ...]


@dataclass(frozen=True)
class QPair(QOperator):
    """A function of two quantized tensors, element by element.

    ``dtypes`` and ``zeros`` are of a, b and the result. These have ``shape``, and b has that of ``second``:
    the same, or one number for each plane. ``clamp`` is in quanta. Raises ValueError for anything else.
    """

    shape: Shape
    second: Shape
    dtypes: tuple[Byte, Byte, Byte]
    zeros: tuple[int, int, int]
    clamp: Range

    def __post_init__(self) -> None:
        if self.second not in (self.shape, planes_of(self.shape)):
            raise ValueError(
                f"the second operand has the first one's shape {self.shape} or a number for each of its "
                f"planes, got {self.second}"
            )
        for dtype, zero in zip(self.dtypes, self.zeros, strict=True):
            low, high = LIMITS[dtype]
            if not low <= zero <= high:
                raise ValueError(f"a zero point of {dtype} is from {low} to {high}, got {zero}")

    @classmethod
    def of(
        cls,
        shape: Shape,
        a: Quantization,
        b: Quantization,
        out: Quantization,
        clamp: Range | None = None,
        second: Shape | None = None,
    ) -> Self:
        """The function of real numbers a and b as ``out``; ValueError where its scale is far too small."""
        return cls(
            shape,
            second or shape,
            (a.dtype, b.dtype, out.dtype),
            (a.zero, b.zero, out.zero),
            clamp or LIMITS[out.dtype],
            *cls.factors(a.scale, b.scale, out.scale),
        )

    @staticmethod
    @abstractmethod
    def factors(a: float, b: float, out: float) -> tuple[Any, ...]:
        """The further fields, for scales of both operands and of the result."""

    @property
    def out_shape(self) -> Shape:
        """Shape of the result."""
        return self.shape

    @property
    def result_dtype(self) -> str:
        """Type of the result."""
        return self.dtypes[2]

    @abstractmethod
    def exactly(self, a: Array, b: Array) -> Array:
        """The result less its zero point for operands less theirs, int64, before it is clipped."""

    @abstractmethod
    def vector(self, a: Vector, b: Vector, width: int, target: Target) -> Vector:
        """The result for operands of ``width`` bytes, int32, before it is clipped."""

    def reference(self, *inputs: Array) -> Array:
        """The result for two arrays, of ``shape`` and ``second``."""
        operands = (array.astype(np.int64) - zero for array, zero in zip(inputs, self.zeros[:2], strict=True))
        whole = self.exactly(*operands) + self.zeros[2]
        result: Array = whole.clip(*self.clamp).astype(self.result_dtype)
        return result

    def build(self, target: Target, threads: int, name: str) -> PrimFunc:
        """As of any operator: two tensors and the result."""
        shapes = {"a": stored(self.shape), "b": stored(self.second), "out": stored(self.shape)}
        function = Function(name, shapes, dict(zip(shapes, self.dtypes, strict=True)))
        with function as (a, b, out):

            def emit(first: Index, other: Index, width: int) -> None:
                at = tir.vector(first, width)
                value = self.vector(a[at], b[tir.vector(other, width)], width, target)
                tir.store(out, saturated(value, self.result_dtype, self.clamp, width), at)

            each_pair(self.shape, self.second, target.lanes("uint8"), threads, emit)
        return function.result()


def planes_of(shape: Shape) -> Shape | None:
    """The shape of one number for each plane of an NCHW tensor, None where there are no planes."""
    return (*shape[:2], 1, 1) if len(shape) == 4 else None


def each_pair(
    shape: Shape, second: Shape, lanes: int, threads: int, emit: Callable[[Index, Index, int], None]
) -> None:
    """``emit(at, other, width)`` for runs of up to ``lanes`` elements from ``at`` on, stored NHWC.

    They meet those of the second operand from ``other`` on. A run may overlap the one before.
    """
    if shape == second:
        each_vector(prod(shape), lanes, threads, lambda first, width: emit(first, first, width))
        return
    n, c, h, w = shape
    width = min(lanes, 1 << (c.bit_length() - 1))
    with tir.loop(n * h * w, threads_for(prod(shape), threads)) as pixel:
        at, other = T.Bind(pixel * c), T.Bind(pixel // (h * w) * c)
        with tir.loop(c // width) as turn:
            emit(at + turn * width, other + turn * width, width)
        if c % width:
            emit(at + (c - width), other + (c - width), width)
