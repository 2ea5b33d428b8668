"""Filter-vectorised direct convolution: windows are broadcast from where they lie, filters are vectors.

Nothing is packed at run time, whatever the stride, and no vector of windows is ever partly empty, so this is
the family for small planes. Sums come out window by window and are turned to NCHW in registers.
"""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.float.fconv import cost
from kernels.float.fconv.emit import emit
from kernels.float.fconv.pack import tiles
from kernels.float.fconv.plan import FILTERS, INPUT_STATIONARY, WEIGHT_STATIONARY, WINDOWS, Plan
from kernels.float.plan import why_not_ungrouped
from kernels.kernel import Kernel, KnobValues
from kernels.knobs import Block
from kernels.layout import NCHW, Layouts, layouts_for
from kernels.target import Target
from kernels.workload.base import Conv2d

DEPTHS = (64, 96, 128, 256)
"""Products that a sum gets at a time where its windows' elements lie a plane apart, each in a cache line."""
RUN_DEPTHS = (128, 256, 512)
"""The same where channels lie side by side."""
BLOCKS = (192, 768)
"""Windows a block; where channels lie side by side, also few enough for L1."""
SMALL_BLOCK = 48


class FilterConvPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack = tiles
    body = emit


class FilterConv(Kernel[Conv2d]):
    """Direct convolution vectorised over filters, ungrouped; its knobs are those of ``plan.Knobs``."""

    name = "fconv"
    version = 5
    workload_type = Conv2d
    plan_type = FilterConvPlan

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """Only ungrouped convolutions."""
        return why_not_ungrouped(workload)

    def layouts(self, workload: Conv2d, target: Target) -> tuple[Layouts, ...]:
        """Any to any."""
        return tuple(
            Layouts(data, out)
            for data in layouts_for(workload.in_c, target)
            for out in layouts_for(workload.out_c, target)
        )

    def knobs(self, workload: Conv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Register blocks, both orders, channel sets that suit L1, and whole or L2-sized window blocks."""
        return {
            "block": [f"{windows}x{vectors}" for windows, vectors in self.blocks(target, workload.out_c)],
            "order": [WEIGHT_STATIONARY, INPUT_STATIONARY],
            "channels": _channel_sets(workload, layouts.data, target),
            "windows": _window_blocks(workload, layouts.data),
            **({"split": [FILTERS, WINDOWS]} if threads > 1 else {}),
        }

    def blocks(self, target: Target, filters: int) -> list[Block]:
        """(windows, vectors of filters) whose accumulators fit the registers beside their operands."""
        registers, most = target.vector_registers, ceil_div(filters, target.lanes())
        widths = [width for width in ((2, 3, 4) if registers >= 32 else (2, 3)) if width <= most] or [1]
        return [((registers - 1 - vectors) // vectors, vectors) for vectors in widths]


def _channel_sets(conv: Conv2d, layout: str, target: Target) -> list[int]:
    """All channels, and even parts that leave L1 to a tile's windows."""
    depths, unit = (DEPTHS, 1) if layout == NCHW else (RUN_DEPTHS, target.lanes())
    return sorted(
        {_part(conv.in_c, ceil_div(conv.in_c * conv.taps, depth), unit) for depth in depths} | {conv.in_c}
    )


def _part(channels: int, parts: int, unit: int) -> int:
    """The size of ``parts`` or more equal parts in multiples of ``unit``, or of even ones and a smaller last.

    Equal ones where there are not many more: the loop over a set then has a constant extent.
    """
    for count in range(parts, 2 * parts):
        if channels % (count * unit) == 0:
            return channels // count
    size = ceil_div(channels, min(channels, parts))
    return min(channels, ceil_div(size, unit) * unit)


def _window_blocks(conv: Conv2d, layout: str) -> list[int]:
    """The whole plane when it is small, and blocks well below it."""
    sizes = BLOCKS if layout == NCHW else (SMALL_BLOCK, *BLOCKS)
    blocks = [size for size in sizes if 2 * conv.windows > 3 * size]
    return [*blocks, conv.windows] if conv.windows <= 1024 else blocks
