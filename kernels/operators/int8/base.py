"""What the integer operators of a quantized model have in common: they say all of a function by integers."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels.emit.types import PrimFunc
from kernels.layout import NHWC, stored_shape
from kernels.target import Target

Array = npt.NDArray[Any]


class QOperator(ABC):
    """A function of tensors of bytes.

    Its dataclass says everything. Shapes are logical, NCHW where there are four axes; such tensors are
    stored NHWC, others as they are (``stored``).
    """

    @property
    @abstractmethod
    def out_shape(self) -> tuple[int, ...]:
        """Logical shape of the result."""

    @property
    @abstractmethod
    def result_dtype(self) -> str:
        """Type of the result."""

    @abstractmethod
    def reference(self, *inputs: Array) -> Array:
        """The result for logical inputs, in plain numpy."""

    @abstractmethod
    def build(self, target: Target, threads: int, name: str) -> PrimFunc:
        """The PrimFunc ``name``: its arguments are the stored inputs, ``constants``, and the stored result.

        With several ``threads`` large tensors are split over them.
        """

    def constants(self) -> list[Array]:
        """What the function takes besides the activations."""
        return []

    @property
    def key(self) -> str:
        """16 hex digits over all that is in the function."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def stored(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape in which a tensor of integers of logical ``shape`` is stored."""
    return stored_shape(NHWC, tuple(shape)) if len(shape) == 4 else tuple(shape)


def to_stored(array: Array) -> Array:
    """A logical array as it is stored, contiguous."""
    return np.ascontiguousarray(array.transpose(0, 2, 3, 1) if array.ndim == 4 else array)


def from_stored(array: Array) -> Array:
    """The inverse of ``to_stored``."""
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2) if array.ndim == 4 else array)
