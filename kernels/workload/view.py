"""How matrices lie in an array: transposes and broadcasts are strides, not copies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pydantic import ConfigDict

from kernels.workload.checked import STRICT_FIELDS


@dataclass(frozen=True)
class View:
    """Element (i, j) of the matrix at place b of a batch is at sum(b * batch) + i * row + j * column."""

    __pydantic_config__: ClassVar[ConfigDict] = STRICT_FIELDS
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

    def start(self, place: Any, extents: tuple[int, ...]) -> Any:
        """The first element of the matrix at ``place`` of the batch, counted through its ``extents``.

        A place is a number, or an expression of code that is being made; so may strides be.
        """
        at: Any = 0
        for axis, stride in enumerate(self.batch):
            inside = math.prod(extents[axis + 1 :])
            number = place if inside == 1 else place // inside
            if axis:
                number = number % extents[axis]
            if not isinstance(stride, int) or stride:
                at = at + number * stride
        return at

    def axes(self, extents: tuple[int, ...], rows: int, columns: int) -> list[tuple[int, int]]:
        """(extent, stride) of every axis that moves, the nearest neighbours first."""
        pairs = zip((*extents, rows, columns), (*self.batch, self.row, self.column), strict=True)
        return sorted(((e, s) for e, s in pairs if e > 1 and s), key=lambda pair: pair[1])

    def size(self, extents: tuple[int, ...], rows: int, columns: int) -> int:
        """Elements of the array, up to the last one that is seen."""
        return 1 + sum((extent - 1) * stride for extent, stride in self.axes(extents, rows, columns))

    def check(self, name: str, extents: tuple[int, ...], rows: int, columns: int) -> None:
        """Raises ValueError, after ``name``, unless it sees each element of a dense array in one place, or in
        all places of axes that it is broadcast along."""
        if len(self.batch) != len(extents):
            raise ValueError(f"{name} has {len(self.batch)} axes of a batch, not {len(extents)}")
        dense = 1
        for extent, stride in self.axes(extents, rows, columns):
            if stride != dense:
                raise ValueError(
                    f"{name} does not see a dense array: an axis has stride {stride}, not {dense}"
                )
            dense *= extent
