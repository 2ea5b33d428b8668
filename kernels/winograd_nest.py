"""The loop nest of a Winograd convolution: blocks of tiles through transform, matrix products, transform."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.winograd_input import InputTransform
from kernels.winograd_output import OutputTransform
from kernels.winograd_plan import Plan, share, tile_grid
from kernels.winograd_product import Products


def emit(plan: Plan, args: tir.Arguments, threads: int) -> None:
    """All blocks. Threads share the blocks, or else the vectors and the points of each."""
    outer, inner = (threads, 1) if plan.split == "tiles" else (1, threads)
    with tir.loop(outer, outer) as thread:
        transformed = tir.scratch(plan.points * plan.in_pitch)
        products = tir.scratch(plan.points * plan.out_pitch)
        with share(plan.blocks, thread, outer) as block:
            place = _place(plan, block)
            InputTransform(plan, args, transformed, inner).run(*place)
            Products(plan, args, transformed, products, inner).run()
            OutputTransform(plan, args, products, inner).run(*place)


def _place(plan: Plan, block: Any) -> tuple[Any, Any, Any]:
    """A block's image, and the row and column of its first tile."""
    down, across = plan.grid
    tiles_down, tiles_across = tile_grid(plan.conv, plan.m)
    image = T.Bind(block // (down * across))
    row = T.Bind(tir.least(block // across % down * plan.block_rows, tiles_down - plan.block_rows))
    if across == 1:
        return image, row, 0
    start = block % across * plan.block_columns
    return image, row, T.Bind(tir.least(start, tiles_across - plan.block_columns))
