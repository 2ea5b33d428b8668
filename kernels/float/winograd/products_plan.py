"""The sizes of Winograd's matrix products, whatever tiles they are of."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.emit.types import Index
from kernels.float.plan import ConvPlan
from kernels.kernel import Array


class ProductsPlan(ConvPlan):
    """A product for each of the ``points`` of a block's ``tiles``: tiles by filters, over the channels."""

    @property
    @abstractmethod
    def tiles(self) -> int:
        """Tiles in a block."""

    @property
    @abstractmethod
    def points(self) -> int:
        """Elements of a transformed tile."""

    @property
    @abstractmethod
    def vectors(self) -> int:
        """Vectors of filters of a register block."""

    @property
    @abstractmethod
    def blocks(self) -> int:
        """Blocks of the whole batch."""

    @abstractmethod
    def filters(self, weights: Array) -> Array:
        """Transformed weights in float64: (points, filters, channels)."""

    @cached_property
    def rows(self) -> int:
        """Tiles of a register block, as even as can be."""
        tallest = (self.target.vector_registers - max(4, self.vectors + 1)) // self.vectors
        return ceil_div(self.tiles, ceil_div(self.tiles, tallest))

    def step_cycles(self, rows: int) -> float:
        """One product of each sum of ``rows`` tiles."""
        return machine.step_cycles(self.target, rows, self.vectors)

    @property
    def turning_cycles(self) -> float:
        """What is done with a block's transformed tiles before they are multiplied: nothing."""
        return 0.0

    @property
    def places(self) -> int:
        """Tiles that a block has room for."""
        return self.tiles

    @property
    def in_vectors(self) -> int:
        """Vectors of input channels."""
        return ceil_div(self.conv.in_c, self.lanes)

    @property
    def panels(self) -> int:
        """Groups of ``vectors`` vectors of filters."""
        return ceil_div(self.conv.out_c, self.vectors * self.lanes)

    @property
    def width(self) -> int:
        """Filters of a panel."""
        return self.vectors * self.lanes

    @property
    def packed_length(self) -> int:
        """Elements of the packed weights."""
        return self.points * self.panels * self.conv.in_c * self.width

    @property
    def out_vectors(self) -> int:
        """Vectors of filters that have results."""
        return ceil_div(self.conv.out_c, self.lanes)

    @property
    def chunk(self) -> int:
        """Channels of a panel's weights that fill at most a quarter of L1: there are two, and tiles."""
        most = max(1, self.target.l1_bytes // 4 // (4 * self.width * self.lanes))
        vectors = ceil_div(self.in_vectors, ceil_div(self.in_vectors, most))
        return min(self.conv.in_c, vectors * self.lanes)

    @property
    def groups(self) -> int:
        """Groups of ``rows`` tiles, each multiplied at once."""
        return ceil_div(self.tiles, self.rows)

    @property
    def in_pitch(self) -> int:
        """Elements from one point to the next in the transformed input: [vector of channels][tile][lane]."""
        return odd_lines(self.at(self.in_vectors, 0))

    @property
    def out_pitch(self) -> int:
        """Elements from one point to the next in the products: [vector of filters][tile][lane]."""
        return odd_lines(self.at(self.panels * self.vectors, 0))

    def at(self, vector: Index, tile: Index) -> Index:
        """Where a point's vector of channels or filters of one tile is."""
        return (vector * self.places + tile) * self.lanes


def odd_lines(elements: int) -> int:
    """``elements`` made an odd number of 16-element cache lines: powers of two would share cache sets."""
    return (ceil_div(elements, 16) | 1) * 16
