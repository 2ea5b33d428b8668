"""Concatenation of tensors of bytes with the same quantization."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from kernels.arithmetic import ceil_div
from kernels.emit import tir
from kernels.emit.elements import threads_for
from kernels.emit.function import Function
from kernels.emit.row_copy import copy_row
from kernels.emit.tvm import T
from kernels.emit.types import PrimFunc
from kernels.operators.int8.base import Array, QOperator, stored
from kernels.target import Target
from kernels.workload.qconv2d import Byte

FEW_ROWS = 64
"""So few rows are copied piece by piece, which threads can share."""
_STORED_AXIS = (0, 3, 1, 2)
"""Where NHWC has the axes of NCHW."""


@dataclass(frozen=True)
class QConcat(QOperator):
    """Tensors of ``shapes`` one after another along ``axis`` (not negative).

    Raises ValueError for shapes that do not fit together, or hold nothing.
    """

    shapes: tuple[tuple[int, ...], ...]
    axis: int
    dtype: Byte

    def __post_init__(self) -> None:
        rest = {(*shape[: self.axis], *shape[self.axis + 1 :]) for shape in self.shapes}
        ranks = {len(shape) for shape in self.shapes}
        if len(ranks) != 1 or len(rest) != 1 or not 0 <= self.axis < min(ranks):
            raise ValueError(f"tensors of {list(self.shapes)} cannot be put together along axis {self.axis}")
        if any(extent < 1 for shape in self.shapes for extent in shape):
            raise ValueError(f"tensors to put together must not be empty, got {list(self.shapes)}")

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        extent = sum(shape[self.axis] for shape in self.shapes)
        return (*self.shapes[0][: self.axis], extent, *self.shapes[0][self.axis + 1 :])

    @property
    def result_dtype(self) -> str:
        """Type of the result."""
        return self.dtype

    def reference(self, *inputs: Array) -> Array:
        """The result for arrays of ``shapes``."""
        result: Array = np.concatenate(inputs, self.axis)
        return result

    def build(self, target: Target, threads: int, name: str) -> PrimFunc:
        """As of any operator: the tensors in order and the result."""
        shapes = {f"data{at}": stored(shape) for at, shape in enumerate(self.shapes)}
        shapes["out"] = stored(self.out_shape)
        axis = _STORED_AXIS[self.axis] if len(self.out_shape) == 4 else self.axis
        rows = prod(shapes["out"][:axis])
        sizes = [prod(shape) // rows for shape in self.shapes]
        lanes, whole = target.lanes("uint8"), sum(sizes)
        function = Function(name, shapes, dict.fromkeys(shapes, self.dtype))
        with function as (*inputs, out):
            starts = [sum(sizes[:at]) for at in range(len(sizes))]
            parts = list(zip(inputs, sizes, starts, strict=True))
            by_row = [part for part in parts if rows > FEW_ROWS or part[1] < lanes]
            by_piece = parts[:0] if rows > FEW_ROWS else [part for part in parts if part[1] >= lanes]
            if by_row:
                with tir.loop(rows, threads_for(rows * whole, threads)) as row:
                    for data, size, start in by_row:
                        copy_row(out, row * whole + start, data, row * size, size, 1, lanes)
            for data, size, start in by_piece:
                turns = ceil_div(size, lanes)
                with tir.loop(rows * turns, threads_for(rows * size, threads)) as turn:
                    row = T.Bind(turn // turns)
                    at = T.Bind(tir.least(turn % turns * lanes, size - lanes))
                    value = data[tir.vector(row * size + at, lanes)]
                    tir.store(out, value, tir.vector(row * whole + start + at, lanes))
        return function.result()
