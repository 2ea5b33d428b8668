"""How matrices lie in an array: transposes and broadcasts are strides, not copies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from kernels.emit.types import Index


@dataclass(frozen=True)
class View:
    """Element (i, j) of the matrix at place b of a batch is at sum(b * batch) + i * row + j * column."""

    batch: tuple[int, ...]
    row: int
    column: int

    @classmethod
    def of(cls, shape: tuple[int, ...], perm: tuple[int, ...] = ()) -> View:
        """A dense array of ``shape`` with at least two axes, seen with its axes in the order ``perm``."""
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        *batch, row, column = (strides[axis] for axis in perm or range(len(shape)))
        return cls(tuple(batch), row, column)

    @property
    def turned(self) -> View:
        """Its transpose."""
        return replace(self, row=self.column, column=self.row)

    def start(self, place: Index, extents: tuple[int, ...]) -> Index:
        """The first element of the matrix at ``place`` of the batch, counted through its ``extents``."""
        at: Index = 0
        for axis, stride in enumerate(self.batch):
            inside = math.prod(extents[axis + 1 :])
            number = place if inside == 1 else place // inside
            if axis:
                number = number % extents[axis]
            if stride:
                at = at + number * stride
        return at
