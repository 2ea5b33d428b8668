"""Where vectors of channels lie in a tensor whose layout keeps the channels of a pixel together."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.emit.types import Index
from kernels.layout import NCHW, NHWC


@dataclass(frozen=True)
class Pixels:
    """Elements from one image, vector of channels, row and column to the next."""

    image: int
    vector: int
    row: int
    column: int

    @classmethod
    def of(cls, layout: str, shape: tuple[int, ...], lanes: int) -> Pixels | None:
        """Of a tensor of NCHW ``shape``, channels a multiple of ``lanes``; None for NCHW, which has none."""
        _, c, h, w = shape
        if layout == NCHW:
            return None
        if layout == NHWC:
            return cls(h * w * c, lanes, w * c, c)
        return cls(h * w * c, h * w * lanes, w * lanes, lanes)

    def at(self, image: Index, vector: Index, row: Index, column: Index) -> Index:
        """The first element of a vector."""
        return image * self.image + vector * self.vector + row * self.row + column * self.column
