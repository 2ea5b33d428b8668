"""Winograd convolution: fewer multiplications for square filters with stride 1 or 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernels import code_shape, machine, tir
from kernels.kernel import Array, Kernel, conv_of
from kernels.layout import NCHW, NHWC, PLAIN, Layouts, layout_knobs, layouts_for
from kernels.space import Config, Knobs, Space, Value
from kernels.target import Target
from kernels.winograd_cost import cycles
from kernels.winograd_nest import emit
from kernels.winograd_plan import POINTS, TILES, Plan, block_shape, ceil_div, tile_grid
from kernels.winograd_transform import Transform
from kernels.workload import Conv2d, Workload

BLOCK_SIZES = (8, 16, 28, 48, 72, 100)
"""About how many tiles make a block: each loaded weight is used for all of them."""
EXACT_POINTS = 3
"""As many finite points as F(2x2, 3x3) has: with more, rounding errors are no longer those of summing."""


class Winograd(Kernel):
    """Convolution by minimal filtering: square filters, ungrouped, stride 1 or 2.

    Rounding errors grow with the channels and with the points of the transform. Measured against float64 on
    normal data, relative to the largest output, for 16 to 1024 channels: 2e-7 to 1.4e-6 where the points are
    0, 1 and -1 only (F(2x2, 3x3), and 3x3 with stride 2 up to m = 3), 1e-6 to 3.1e-5 for all others, with
    F(6x6, 3x3) the largest.

    Knobs: ``m`` is the side of an output tile, ``tiles`` how many tiles are transformed at a time, and
    ``vectors`` the width of the matrix products' register block, whose height follows. With several threads,
    ``split`` says whether they share the blocks of tiles or the parts of each.
    """

    name = "winograd"
    version = 4
    tolerance = 1e-4

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only float32 and 3x3 filters with stride, dilation and groups of one."""
        if not isinstance(workload, Conv2d):
            return "computes convolutions"
        if workload.dtype != "float32":
            return f"computes float32, not {workload.dtype}"
        if workload.kh != workload.kw or workload.stride[0] != workload.stride[1]:
            return "needs square filters, and one stride for both directions"
        if workload.dilation != (1, 1) or workload.groups != 1:
            return "needs dilation and groups of 1"
        if workload.kh == 1 or workload.stride[0] > 2 or not _sides(workload):
            return f"saves nothing on {workload.kh}x{workload.kw} filters with stride {workload.stride[0]}"
        return None

    def layouts(self, workload: Workload, target: Target) -> tuple[Layouts, ...]:
        """NCHW and blocked channels in all combinations, and NHWC; channels in whole vectors but in NCHW."""
        conv, lanes = conv_of(workload), target.lanes()
        ends = [
            [layout for layout in layouts_for(channels, target) if layout == NCHW or channels % lanes == 0]
            for channels in (conv.in_c, conv.out_c)
        ]
        return tuple(
            Layouts(data, out) for data in ends[0] for out in ends[1] if (data == NHWC) == (out == NHWC)
        )

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Tile sizes, blocks of a handful to about a hundred tiles, two or three vectors of filters."""
        conv = conv_of(workload)
        sides = _sides(conv)
        blocks = {
            m: sorted({r * c for r, c in (block_shape(conv, m, size) for size in BLOCK_SIZES)}) for m in sides
        }
        widths = sorted({min(vectors, ceil_div(conv.out_c, target.lanes())) for vectors in (2, 3)})

        def invalid(point: Knobs) -> str | None:
            m, tiles = int(point["m"]), int(point["tiles"])
            if tiles not in blocks[m]:
                return f"F({m}x{m}) has no block of {tiles} tiles; it has {blocks[m]}"
            plan = Plan.of(conv, Config.of(self.name, **point), target)
            if plan.grid[1] > 1 and (plan.block_columns - 1) * m < target.lanes():
                return f"{plan.block_columns} tiles are narrower than a vector"
            down, across = tile_grid(conv, m)
            if tiles > blocks[m][0] and plan.blocks * tiles > 1.2 * conv.n * down * across:
                return f"blocks of {tiles} tiles overlap by more than a fifth"
            return None

        sizes = sorted(set().union(*blocks.values()))
        knobs: dict[str, Sequence[Value]] = {
            "m": sides,
            "tiles": sizes,
            "vectors": widths,
            **layout_knobs(layouts),
        }
        if threads > 1:
            knobs["split"] = [TILES, POINTS]
        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Both transforms, the matrix products, and the traffic of weights and transformed tiles."""
        plan = Plan.of(conv_of(workload), config, target)
        return machine.seconds(cycles(plan, target, threads))

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """The points 0, 1 and -1 only add and subtract elements of tiles; others multiply, and cancel."""
        conv, m = conv_of(workload), config.int("m")
        if Transform(m, conv.kh, conv.stride[0]).finite_points <= EXACT_POINTS:
            return None
        return f"F({m}x{m}) for {conv.kh}x{conv.kh} filters needs more points than 0, 1 and -1"

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """[point][panel][channel][filter of the panel], transformed in float64 and then rounded."""
        conv = conv_of(workload)
        plan = Plan.of(conv, config, target)
        filled = np.zeros((plan.points, conv.in_c, plan.panels * plan.width), np.float32)
        transformed = plan.transform.filters(weights).reshape(plan.points, conv.out_c, conv.in_c)
        filled[:, :, : conv.out_c] = transformed.transpose(0, 2, 1)
        panels = filled.reshape(plan.points, conv.in_c, plan.panels, plan.width).transpose(0, 2, 1, 3)
        return np.ascontiguousarray(panels).reshape(-1)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Blocks of tiles: input transform, one matrix product a point, output transform with epilogue."""
        plan = Plan.of(conv_of(workload), config, target)
        function = tir.Function(workload, name, plan.packed_length, plan.layouts)
        with function as args, code_shape.linked():
            emit(plan, args, threads)
        return function.result()


def _sides(conv: Conv2d) -> list[int]:
    """The sides of output tiles worth a trial: each saves multiplications against all smaller ones.

    Beyond six the points run out; so does the accuracy.
    """
    sides: list[int] = []
    fewest = conv.out_h * conv.out_w * conv.kh * conv.kw
    for m in range(2, 7):
        transform = Transform(m, conv.kh, conv.stride[0])
        down, across = tile_grid(conv, m)
        needed = down * across * transform.tile**2
        if transform.exists and needed < fewest:
            sides.append(m)
            fewest = needed
    return sides
