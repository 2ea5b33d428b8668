"""Concatenation of tensors of bytes with the same quantization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.qworkload import Byte

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class QConcat:
    """Tensors of ``shapes`` one after another along ``axis`` (not negative).

    Raises ValueError for shapes that do not fit together.
    """

    shapes: tuple[tuple[int, ...], ...]
    axis: int
    dtype: Byte

    def __post_init__(self) -> None:
        rest = {(*shape[: self.axis], *shape[self.axis + 1 :]) for shape in self.shapes}
        ranks = {len(shape) for shape in self.shapes}
        if len(ranks) != 1 or len(rest) != 1 or not 0 <= self.axis < min(ranks):
            raise ValueError(f"tensors of {list(self.shapes)} cannot be put together along axis {self.axis}")

    @property
    def out_shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        extent = sum(shape[self.axis] for shape in self.shapes)
        return (*self.shapes[0][: self.axis], extent, *self.shapes[0][self.axis + 1 :])

    def reference(self, *inputs: Array) -> Array:
        """The result for arrays of ``shapes``."""
        result: Array = np.concatenate(inputs, self.axis)
        return result
