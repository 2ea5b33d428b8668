"""What plans have in common whose sums are vectors of filters."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from kernels.arithmetic import ceil_div
from kernels.int8.kernel import QuantizedPlan


@dataclass(frozen=True)
class TiledPlan(QuantizedPlan):
    """A plan that computes tiles of so many ``vectors`` of filters; each group is filled up to whole ones."""

    @property
    @abstractmethod
    def vectors(self) -> int:
        """Vectors of filters of a tile."""

    @property
    def bits(self) -> int:
        """Size of a vector register."""
        return self.target.integer_vector_bits or self.target.vector_bits

    @property
    def lanes(self) -> int:
        """Filters in a vector."""
        return self.bits // 32

    @property
    def filters(self) -> int:
        """Filters of a group, filled up to whole vectors."""
        return ceil_div(self.conv.filters, self.lanes) * self.lanes

    @property
    def padded_filters(self) -> int:
        """Filters of all groups, each filled up."""
        return self.conv.groups * self.filters

    def filter_tiles(self) -> list[tuple[int, int, int]]:
        """(first vector, vectors of a tile, count) of a group: whole tiles, then what is left."""
        whole, rest = divmod(self.filters // self.lanes, self.vectors)
        return [(0, self.vectors, whole)] * (whole > 0) + [(whole * self.vectors, rest, 1)] * (rest > 0)
