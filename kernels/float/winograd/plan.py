"""The sizes that one Winograd config implies for one convolution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from kernels.arithmetic import ceil_div
from kernels.float.winograd.product import Products
from kernels.float.winograd.products_plan import ProductsPlan
from kernels.float.winograd.transform import Transform, filters
from kernels.kernel import Array
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
class Plan(ProductsPlan):
    """One config's sizes. A block is ``block_rows`` x ``block_columns`` tiles of one image.

    The last block of a row or column of blocks starts early, so that every block has the same size.
    """

    knobs: Knobs
    products: ClassVar[type[Products]] = Products

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

    @property
    def vectors(self) -> int:
        """Vectors of a register block."""
        return self.knobs.vectors

    @cached_property
    def transforms(self) -> tuple[Transform, Transform]:
        """What a tile's columns go through, and what its rows."""
        down, across = transforms(self.conv, self.knobs.m)
        return down, across

    @property
    def tile_rows(self) -> int:
        """Rows of an input tile."""
        return self.transforms[0].tile

    @property
    def tile_columns(self) -> int:
        """Columns of an input tile."""
        return self.transforms[1].tile

    @property
    def step(self) -> int:
        """Input rows from one tile to the next."""
        return self.knobs.m * self.conv.stride[0]

    @property
    def in_rows(self) -> int:
        """Input rows of a block."""
        return (self.block_rows - 1) * self.step + self.tile_rows

    @property
    def in_columns(self) -> int:
        """Input columns of a block."""
        return (self.block_columns - 1) * self.step + self.tile_columns

    @property
    def points(self) -> int:
        """Elements of a transformed tile: there is one matrix product for each."""
        return self.tile_rows * self.tile_columns

    @property
    def tiles(self) -> int:
        """Tiles in a block."""
        return self.block_rows * self.block_columns

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks down and across an image."""
        down, across = tile_grid(self.conv, self.knobs.m)
        return ceil_div(down, self.block_rows), ceil_div(across, self.block_columns)

    def filters(self, weights: Array) -> Array:
        """Transformed weights in float64: (points, filters, channels)."""
        transformed = filters(*self.transforms, weights)
        return transformed.reshape(self.points, self.conv.out_c, self.conv.in_c)

    @property
    def blocks(self) -> int:
        """Blocks of the whole batch."""
        return self.conv.n * self.grid[0] * self.grid[1]


def transforms(conv: Conv2d, m: int) -> tuple[Transform, Transform]:
    """What the columns of a tile go through, and what its rows, for ``m`` results of each."""
    return Transform(m, conv.kh, conv.stride[0]), Transform(m, conv.kw, conv.stride[1])


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
