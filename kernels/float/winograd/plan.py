"""The sizes that one Winograd config implies for one convolution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kernels.arithmetic import ceil_div
from kernels.emit.types import Index
from kernels.float.plan import ConvPlan
from kernels.float.winograd.transform import Transform
from kernels.knobs import KnobSet
from kernels.workload.base import Conv2d

BLOCK_SIZES = (8, 16, 28, 48, 72, 100)
"""About how many tiles make a block: each loaded weight is used for all of them."""
TILES, POINTS = "tiles", "points"
"""What threads share: blocks of tiles; or the channels, points and filters of one block after another."""


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``m`` is the side of an output tile, ``tiles`` how many tiles are transformed at a time, and
    ``vectors`` the width of the matrix products' register block, whose height follows. ``split`` says whether
    threads share the blocks of tiles or the parts of each.
    """

    m: int
    tiles: int
    vectors: int
    split: str = TILES


@dataclass(frozen=True)
class Plan(ConvPlan):
    """One config's sizes. A block is ``block_rows`` x ``block_columns`` tiles of one image.

    The last block of a row or column of blocks starts early, so that every block has the same size.
    """

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why there is no such block of tiles, or it wastes work; None when all is well."""
        m, tiles, sizes = self.knobs.m, self.knobs.tiles, block_sizes(self.conv, self.knobs.m)
        if tiles not in sizes:
            return f"F({m}x{m}) has no block of {tiles} tiles; it has {sizes}"
        if self.grid[1] > 1 and (self.block_columns - 1) * m < self.lanes:
            return f"{self.block_columns} tiles are narrower than a vector"
        down, across = tile_grid(self.conv, m)
        if tiles > sizes[0] and self.blocks * tiles > 1.2 * self.conv.n * down * across:
            return f"blocks of {tiles} tiles overlap by more than a fifth"
        return None

    @cached_property
    def block(self) -> tuple[int, int]:
        """Tiles of a block, down and across."""
        return block_shape(self.conv, self.knobs.m, self.knobs.tiles)

    @property
    def block_rows(self) -> int:
        """Rows of tiles of a block."""
        return self.block[0]

    @property
    def block_columns(self) -> int:
        """Tiles of a row of a block."""
        return self.block[1]

    @cached_property
    def rows(self) -> int:
        """Tiles of a register block, as even as can be."""
        tallest = (self.target.vector_registers - max(4, self.knobs.vectors + 1)) // self.knobs.vectors
        return ceil_div(self.tiles, ceil_div(self.tiles, tallest))

    @cached_property
    def transform(self) -> Transform:
        """What a tile goes through."""
        return Transform(self.knobs.m, self.conv.kh, self.conv.stride[0])

    @property
    def tile(self) -> int:
        """Side of an input tile."""
        return self.transform.tile

    @property
    def step(self) -> int:
        """Input rows from one tile to the next."""
        return self.knobs.m * self.conv.stride[0]

    @property
    def in_rows(self) -> int:
        """Input rows of a block."""
        return (self.block_rows - 1) * self.step + self.tile

    @property
    def in_columns(self) -> int:
        """Input columns of a block."""
        return (self.block_columns - 1) * self.step + self.tile

    @property
    def points(self) -> int:
        """Elements of a transformed tile: there is one matrix product for each."""
        return self.tile * self.tile

    @property
    def tiles(self) -> int:
        """Tiles in a block."""
        return self.block_rows * self.block_columns

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks down and across an image."""
        down, across = tile_grid(self.conv, self.knobs.m)
        return ceil_div(down, self.block_rows), ceil_div(across, self.block_columns)

    @property
    def blocks(self) -> int:
        """Blocks of the whole batch."""
        return self.conv.n * self.grid[0] * self.grid[1]

    @property
    def in_vectors(self) -> int:
        """Vectors of input channels."""
        return ceil_div(self.conv.in_c, self.lanes)

    @property
    def panels(self) -> int:
        """Groups of ``vectors`` vectors of filters."""
        return ceil_div(self.conv.out_c, self.knobs.vectors * self.lanes)

    @property
    def width(self) -> int:
        """Filters of a panel."""
        return self.knobs.vectors * self.lanes

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
        return odd_lines(self.at(self.panels * self.knobs.vectors, 0))

    def at(self, vector: Index, tile: Index) -> Index:
        """Where a point's vector of channels or filters of one tile is."""
        return (vector * self.tiles + tile) * self.lanes


def odd_lines(elements: int) -> int:
    """``elements`` made an odd number of 16-element cache lines: powers of two would share cache sets."""
    return (ceil_div(elements, 16) | 1) * 16


def tile_grid(conv: Conv2d, m: int) -> tuple[int, int]:
    """Output tiles of side ``m`` down and across an image."""
    return ceil_div(conv.out_h, m), ceil_div(conv.out_w, m)


def block_shape(conv: Conv2d, m: int, tiles: int) -> tuple[int, int]:
    """Rows and columns of a block of about ``tiles``: whole rows of tiles, or a part of a long one."""
    down, across = tile_grid(conv, m)
    if across <= tiles:
        bands = ceil_div(down, tiles // across)
        return ceil_div(down, bands), across
    return 1, ceil_div(across, ceil_div(across, tiles))


def block_sizes(conv: Conv2d, m: int) -> list[int]:
    """Tiles of the blocks worth a trial."""
    return sorted({rows * columns for rows, columns in (block_shape(conv, m, size) for size in BLOCK_SIZES)})
