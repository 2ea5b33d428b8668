"""Sizes that are left open: whole numbers that grow with the one that is known only at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from kernels.emit.types import Expr, Index


@dataclass(frozen=True)
class Open:
    """``factor`` times the open size, and ``more``."""

    factor: int
    more: int = 0

    def of(self, length: int) -> int:
        """What it is for one length."""
        return self.factor * length + self.more


Size = int | Open


def elements(shape: Sequence[Size], length: int) -> int:
    """How many elements an array has at a length."""
    return prod(size if isinstance(size, int) else size.of(length) for size in shape)


def expression(size: Size, length: Expr) -> Index:
    """A size where ``length`` is a variable."""
    if isinstance(size, int):
        return size
    made = length if size.factor == 1 else length * size.factor
    return made + size.more if size.more else made


def size_through(values: Sequence[int], lengths: Sequence[int]) -> Size | None:
    """The size that has these ``values`` at these ``lengths``, at least two; None where there is none."""
    if len(set(values)) == 1:
        return values[0]
    factor, rest = divmod(values[1] - values[0], lengths[1] - lengths[0])
    size = Open(factor, values[0] - factor * lengths[0])
    fits = all(size.of(length) == value for value, length in zip(values, lengths, strict=True))
    return size if rest == 0 and fits else None
