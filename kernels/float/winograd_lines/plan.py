"""The sizes that one config of Winograd along lines implies for one convolution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kernels.arithmetic import ceil_div
from kernels.float.winograd.plan import BLOCK_SIZES, TILES
from kernels.float.winograd.products_plan import ProductsPlan
from kernels.float.winograd.transform import Transform
from kernels.float.winograd_lines.lines import Lines
from kernels.kernel import Array
from kernels.knobs import KnobSet
from kernels.layout import NCHW


@dataclass(frozen=True)
class Knobs(KnobSet):
    """``m`` is how many results a tile has, ``tiles`` how many tiles are transformed at a time, and
    ``vectors`` the width of the matrix products' register block, whose height follows. ``split`` says whether
    threads share the blocks of tiles or the parts of each.
    """

    m: int
    tiles: int
    vectors: int
    split: str = TILES


@dataclass(frozen=True)
class Plan(ProductsPlan):
    """One config's sizes.

    The results of a tile are ``dilation`` elements apart. So tiles come in groups of as many, which begin one
    element after the other and have ``m * dilation`` results next to each other. A block is ``block_groups``
    whole groups, or a part of one: ``block_columns`` of its tiles. The last one of each starts early.
    """

    knobs: Knobs

    def why_not(self) -> str | None:
        """Why there is no such block of tiles, or it wastes work; None when all is well."""
        m, tiles, sizes = self.knobs.m, self.knobs.tiles, block_sizes(self.lines, self.knobs.m)
        if tiles not in sizes:
            return f"F({m}) has no block of {tiles} tiles; it has {sizes}"
        if not self.whole and NCHW in self.layouts and self.block_columns < self.lanes:
            return f"{self.block_columns} tiles are narrower than a vector"
        groups, columns = tile_grid(self.lines, m)
        if tiles > sizes[0] and self.blocks * tiles > 1.2 * self.conv.n * self.lines.count * groups * columns:
            return f"blocks of {tiles} tiles overlap by more than a fifth"
        return None

    @cached_property
    def lines(self) -> Lines:
        """What the filters pass along."""
        found = Lines.of(self.conv)
        assert found is not None
        return found

    @cached_property
    def block(self) -> tuple[int, int]:
        """Groups of a block, and tiles of each."""
        return block_shape(self.lines, self.knobs.m, self.knobs.tiles)

    @property
    def block_groups(self) -> int:
        """Groups of a block."""
        return self.block[0]

    @property
    def block_columns(self) -> int:
        """Tiles that a block has of each group."""
        return self.block[1]

    @property
    def whole(self) -> bool:
        """Whether blocks are whole groups: then their elements are all next to each other."""
        return self.block_columns == self.lines.dilation

    @cached_property
    def transform(self) -> Transform:
        """What a tile goes through."""
        return Transform(self.knobs.m, self.lines.taps, self.lines.stride)

    @property
    def tile(self) -> int:
        """Elements of a tile."""
        return self.transform.tile

    @property
    def points(self) -> int:
        """As many."""
        return self.tile

    @property
    def vectors(self) -> int:
        """Vectors of a register block."""
        return self.knobs.vectors

    @property
    def tiles(self) -> int:
        """Tiles in a block."""
        return self.block_groups * self.block_columns

    def filters(self, weights: Array) -> Array:
        """Transformed weights in float64: (points, filters, channels)."""
        conv = self.conv
        return self.transform.filters_of_lines(weights.reshape(conv.out_c, conv.in_c, self.lines.taps))

    @property
    def in_step(self) -> int:
        """Elements of the data from one group to the next."""
        return self.out_step * self.lines.stride

    @property
    def out_step(self) -> int:
        """Results of a group."""
        return self.knobs.m * self.lines.dilation

    @property
    def in_run(self) -> int:
        """Elements of the data next to each other that a block reads: all, or one of each tile."""
        if not self.whole:
            return self.block_columns
        return (self.block_groups - 1) * self.in_step + self.tile * self.lines.dilation

    @property
    def out_run(self) -> int:
        """Results next to each other: all of a block, or one of each tile."""
        return self.block_groups * self.out_step if self.whole else self.block_columns

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks of a line: of all groups, and of each group."""
        groups, columns = tile_grid(self.lines, self.knobs.m)
        return ceil_div(groups, self.block_groups), ceil_div(columns, self.block_columns)

    @property
    def blocks(self) -> int:
        """Blocks of the whole batch."""
        return self.conv.n * self.lines.count * self.grid[0] * self.grid[1]


def tile_grid(lines: Lines, m: int) -> tuple[int, int]:
    """Groups of tiles of ``m`` results in a line, and tiles of a group."""
    return ceil_div(lines.out_length, m * lines.dilation), min(lines.dilation, lines.out_length)


def block_shape(lines: Lines, m: int, tiles: int) -> tuple[int, int]:
    """Groups of a block of about ``tiles``, and tiles of each: whole groups, or a part of one."""
    groups, columns = tile_grid(lines, m)
    if columns <= tiles:
        return ceil_div(groups, ceil_div(groups, tiles // columns)), columns
    return 1, ceil_div(columns, ceil_div(columns, tiles))


def block_sizes(lines: Lines, m: int) -> list[int]:
    """Tiles of the blocks worth a trial."""
    return sorted({groups * columns for groups, columns in (block_shape(lines, m, s) for s in BLOCK_SIZES)})


def sides(lines: Lines) -> list[int]:
    """How many results of a tile are worth a trial: each saves multiplications against all smaller ones."""
    found: list[int] = []
    fewest = lines.out_length * lines.taps
    for m in range(2, 7):
        transform = Transform(m, lines.taps, lines.stride)
        groups, columns = tile_grid(lines, m)
        if transform.exists and groups * columns * transform.tile < fewest:
            found.append(m)
            fewest = groups * columns * transform.tile
    return found
