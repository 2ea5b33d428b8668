"""The sizes that one Winograd config implies for one convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.layout import Layouts, layouts_of
from kernels.space import Config
from kernels.target import Target
from kernels.winograd_transform import Transform
from kernels.workload import Conv2d

TILES, POINTS = "tiles", "points"
"""What threads share: blocks of tiles; or the channels, points and filters of one block after another."""


@dataclass(frozen=True)
class Plan:
    """One config's sizes. A block is ``block_rows`` x ``block_columns`` tiles of one image.

    The last block of a row or column of blocks starts early, so that every block has the same size.
    """

    conv: Conv2d
    lanes: int
    m: int
    rows: int
    vectors: int
    block_rows: int
    block_columns: int
    l1_bytes: int
    line_bytes: int
    layouts: Layouts
    split: str

    @classmethod
    def of(cls, conv: Conv2d, config: Config, target: Target) -> Plan:
        """Fit a config's block of about ``tiles`` tiles and its register block to the convolution."""
        m, vectors = config.int("m"), config.int("vectors")
        block_rows, block_columns = block_shape(conv, m, config.int("tiles"))
        tallest = (target.vector_registers - max(4, vectors + 1)) // vectors
        groups = ceil_div(block_rows * block_columns, tallest)
        rows = ceil_div(block_rows * block_columns, groups)
        split = str(dict(config.knobs).get("split", TILES))
        return cls(
            conv,
            target.lanes(),
            m,
            rows,
            vectors,
            block_rows,
            block_columns,
            target.l1_bytes,
            target.line_bytes,
            layouts_of(config),
            split,
        )

    @property
    def transform(self) -> Transform:
        """What a tile goes through."""
        return Transform(self.m, self.conv.kh, self.conv.stride[0])

    @property
    def tile(self) -> int:
        """Side of an input tile."""
        return self.transform.tile

    @property
    def step(self) -> int:
        """Input rows from one tile to the next."""
        return self.m * self.conv.stride[0]

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
        down, across = tile_grid(self.conv, self.m)
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
        most = max(1, self.l1_bytes // 4 // (4 * self.width * self.lanes))
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

    def at(self, vector: Any, tile: Any) -> Any:
        """Where a point's vector of channels or filters of one tile is."""
        return (vector * self.tiles + tile) * self.lanes


def ceil_div(value: int, divisor: int) -> int:
    """``value / divisor`` rounded up."""
    return -(-value // divisor)


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


def share(total: int, thread: Any, threads: int) -> Any:
    """A loop over one thread's share of ``range(total)``."""
    if threads == 1:
        return tir.loop(total)
    return T.serial(thread * total // threads, (thread + 1) * total // threads)
