"""Exact Winograd convolution of 3x3 filters of 8-bit integers on x86, in int16 and int32.

Tiles are of two or four results along each axis. The transforms of data and filters are integers that fit
int16, products are added in pairs into int32 (vpmaddwd), and what wraps there wraps back at the end, where
the result is divided by up to 576. Channels whose sums would not fit together are split in slabs, as few as
do.
"""

from __future__ import annotations

from kernels.int8 import requantize
from kernels.int8.kernel import QuantizedKernel
from kernels.int8.x86.instructions import why_not_x86
from kernels.int8.x86.winograd import cost
from kernels.int8.x86.winograd.emit import emit
from kernels.int8.x86.winograd.pack import points
from kernels.int8.x86.winograd.plan import (
    BANDS,
    BLOCKS,
    FILTERS,
    POINTS,
    TILES,
    Plan,
    blocks,
    heights,
    why_tile_inexact,
    widths,
)
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d


class WinogradPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack_centered = points
    body = emit


class QuantizedWinograd(QuantizedKernel):
    """F(2x2), F(4x2), F(2x4) and F(4x4) of 3x3 filters with stride 1: 4, 3 or 2.25 multiplications for 9.

    Its knobs are those of ``plan.Knobs``.
    """

    name = "qwinograd"
    version = 3
    plan_type = WinogradPlan

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """3x3 filters with stride, dilation and groups of one, and channels of which a part of
        ``MOST_SLABS`` leaves two bits of int32 free."""
        if (workload.kh, workload.kw, *workload.stride, *workload.dilation) != (3, 3, 1, 1, 1, 1):
            return "needs 3x3 filters, and stride and dilation of 1"
        if workload.groups > 1:
            return "grouped"
        return why_tile_inexact(workload, "2x2") or why_not_x86(target)

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Blocks of about 12 to 64 tiles; register blocks of two and three vectors of filters."""
        tiles = [tile for tile in TILES if why_tile_inexact(workload, tile) is None]
        return {
            "tile": tiles,
            "rows": sorted({rows for tile in tiles for rows in heights(workload, tile)}),
            "columns": sorted({columns for tile in tiles for columns in widths(workload, tile)}),
            "block": [f"{size}x{vectors}" for size, vectors in blocks(workload, target)],
            "order": [POINTS, FILTERS],
            "prefetch": [0, 1],
            "requant": requantize.choices(workload, target),
            **({"split": [BANDS, BLOCKS]} if threads > 1 else {}),
        }
