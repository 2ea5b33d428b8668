"""The loop nest of a Winograd convolution: blocks of tiles through transform, matrix products, transform."""

from __future__ import annotations

from kernels.emit import tir
from kernels.emit.shares import turns
from kernels.emit.tvm import T
from kernels.emit.types import Index
from kernels.float.plan import Arguments
from kernels.float.winograd.input import InputTransform
from kernels.float.winograd.output import OutputTransform
from kernels.float.winograd.plan import TILES, Plan, tile_grid


def emit(plan: Plan, args: Arguments) -> None:
    """All blocks. Threads share the blocks, or else the vectors and the points of each."""
    outer, inner = (plan.threads, 1) if plan.knobs.split == TILES else (1, plan.threads)
    with plan.products.linked(), tir.loop(outer, outer) as thread:
        transformed = tir.scratch(plan.points * plan.in_pitch)
        products = tir.scratch(plan.points * plan.out_pitch)
        with turns(plan.blocks, thread, outer) as block:
            place = _place(plan, block)
            InputTransform(plan, args, transformed, inner).run(*place)
            plan.products(plan, args, transformed, products, inner).run()
            OutputTransform(plan, args, products, inner).run(*place)


def _place(plan: Plan, block: Index) -> tuple[Index, Index, Index]:
    """A block's image, and the row and column of its first tile."""
    down, across = plan.grid
    tiles_down, tiles_across = tile_grid(plan.conv, plan.knobs.m)
    image = T.Bind(block // (down * across))
    row = T.Bind(tir.least(block // across % down * plan.block_rows, tiles_down - plan.block_rows))
    if across == 1:
        return image, row, 0
    start = block % across * plan.block_columns
    return image, row, T.Bind(tir.least(start, tiles_across - plan.block_columns))
