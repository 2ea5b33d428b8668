"""Where a block of tiles is."""

from __future__ import annotations

from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tvm import T
from kernels.emit.types import Index
from kernels.float.winograd_lines.plan import Plan, tile_grid


@dataclass(frozen=True)
class Place:
    """Image, line, and the first elements that a block reads and computes; it may read before the line."""

    image: Index
    line: Index
    reads: Index
    computes: Index

    @classmethod
    def of(cls, plan: Plan, block: Index) -> Place:
        """The place of block ``block`` of all."""
        lines, (down, across) = plan.lines, plan.grid
        groups, columns = tile_grid(lines, plan.knobs.m)
        of_line = T.Bind(block % (down * across))
        line = T.Bind(block // (down * across))
        group = T.Bind(tir.least(of_line // across * plan.block_groups, groups - plan.block_groups))
        column: Index = 0
        if across > 1:
            column = T.Bind(tir.least(of_line % across * plan.block_columns, columns - plan.block_columns))
        return cls(
            T.Bind(line // lines.count),
            T.Bind(line % lines.count),
            T.Bind(group * plan.in_step + column - lines.pad),
            T.Bind(group * plan.out_step + column),
        )
