"""Filter-vectorised direct convolution: windows are broadcast from where they lie, filters are vectors.

Nothing is packed at run time, whatever the stride, and no vector of windows is ever partly empty, so this is
the family for small planes. Sums come out window by window and are turned to NCHW in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import code_shape, fconv_model, machine, tir
from kernels.fconv_nest import FilterNest
from kernels.fconv_plan import FilterPlan
from kernels.kernel import Array, Kernel, conv_of, why_not_ungrouped
from kernels.layout import NCHW, PLAIN, Layouts, layout_knobs, layouts_for
from kernels.space import Config, Space
from kernels.target import Target
from kernels.workload import Conv2d, Workload

DEPTHS = (64, 96, 128, 256)
"""Products that a sum gets at a time where its windows' elements lie a plane apart, each in a cache line."""
RUN_DEPTHS = (128, 256, 512)
"""The same where channels lie side by side."""
BLOCKS = (192, 768)
"""Windows a block; where channels lie side by side, also few enough for L1."""
SMALL_BLOCK = 48


class FilterConv(Kernel):
    """Direct convolution vectorised over filters, ungrouped, NCHW.

    Knobs: ``block`` is windows x vectors of filters in registers; ``channels`` the channels summed at a time;
    ``order`` is ``ws`` (a filter tile stays while windows pass) or ``is`` (the other way round); ``windows``
    the windows worked on before their sums are turned and stored.
    """

    name = "fconv"
    version = 4

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only ungrouped float32 convolutions."""
        return why_not_ungrouped(workload)

    def layouts(self, workload: Workload, target: Target) -> tuple[Layouts, ...]:
        """Any to any."""
        conv = conv_of(workload)
        return tuple(
            Layouts(data, out)
            for data in layouts_for(conv.in_c, target)
            for out in layouts_for(conv.out_c, target)
        )

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Register blocks, both orders, channel sets that suit L1, and whole or L2-sized window blocks."""
        conv = conv_of(workload)
        knobs: dict[str, list[int | str]] = {
            "block": [f"{windows}x{vectors}" for windows, vectors in filter_blocks(target, conv.out_c)],
            "order": ["ws", "is"],
            "channels": list(_channel_sets(conv, layouts.data, target)),
            "windows": list(_window_blocks(conv, layouts.data)),
            **({"split": ["filters", "windows"]} if threads > 1 else {}),
            **layout_knobs(layouts),
        }
        return Space(self.name, knobs)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """As ``fconv_model.py`` counts the cycles."""
        plan = FilterPlan.of(conv_of(workload), config, target, threads)
        return machine.seconds(fconv_model.cycles(plan, target, threads))

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """Channel set, filter tile, run of channels, tap, channel, filter; zeros fill the last vector."""
        conv = conv_of(workload)
        plan = FilterPlan.of(conv, config, target)
        filled = np.zeros((plan.vector_count * plan.lanes, conv.in_c, plan.taps), np.float32)
        filled[: conv.out_c] = weights.reshape(conv.out_c, conv.in_c, plan.taps)

        def ordered(part: Array) -> Array:
            filters, channels, taps = part.shape
            run = min(plan.source.run, channels)
            return part.reshape(filters, -1, run, taps).transpose(1, 3, 2, 0).reshape(-1)

        parts = [
            ordered(filled[tile : tile + plan.filters, channel : channel + plan.channels])
            for channel in range(0, conv.in_c, plan.channels)
            for tile in range(0, len(filled), plan.filters)
        ]
        return np.ascontiguousarray(np.concatenate(parts))

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The loop nest around the micro-kernel, and the turn to NCHW."""
        plan = FilterPlan.of(conv_of(workload), config, target, threads)
        function = tir.Function(workload, name, plan.packed_length, plan.layouts)
        with function as args, code_shape.linked():
            FilterNest(plan, args, threads).emit()
        return function.result()


def filter_blocks(target: Target, filters: int) -> list[tuple[int, int]]:
    """(windows, vectors of filters) whose accumulators fit the registers beside their operands."""
    registers, most = target.vector_registers, -(-filters // target.lanes())
    widths = [width for width in ((2, 3, 4) if registers >= 32 else (2, 3)) if width <= most] or [1]
    return [((registers - 1 - vectors) // vectors, vectors) for vectors in widths]


def _channel_sets(conv: Conv2d, layout: str, target: Target) -> list[int]:
    """All channels, and even parts that leave L1 to a tile's windows."""
    depths, unit = (DEPTHS, 1) if layout == NCHW else (RUN_DEPTHS, target.lanes())
    taps = conv.kh * conv.kw
    return sorted({_part(conv.in_c, -(-conv.in_c * taps // depth), unit) for depth in depths} | {conv.in_c})


def _part(channels: int, parts: int, unit: int) -> int:
    """The size of ``parts`` or more equal parts in multiples of ``unit``, or of even ones and a smaller last.

    Equal ones where there are not many more: the loop over a set then has a constant extent.
    """
    for count in range(parts, 2 * parts):
        if channels % (count * unit) == 0:
            return channels // count
    size = -(-channels // min(channels, parts))
    return min(channels, -(-size // unit) * unit)


def _window_blocks(conv: Conv2d, layout: str) -> list[int]:
    """The whole plane when it is small, and blocks well below it."""
    windows = conv.out_h * conv.out_w
    sizes = BLOCKS if layout == NCHW else (SMALL_BLOCK, *BLOCKS)
    blocks = [size for size in sizes if 2 * windows > 3 * size]
    return [*blocks, windows] if windows <= 1024 else blocks
