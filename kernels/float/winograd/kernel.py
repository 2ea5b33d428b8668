"""Winograd convolution: fewer multiplications for filters of rows and columns with stride 1 or 2."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.float.winograd import cost
from kernels.float.winograd.emit import emit
from kernels.float.winograd.pack import panels
from kernels.float.winograd.plan import POINTS, TILES, Plan, block_sizes, tile_grid, transforms
from kernels.kernel import Kernel, KnobValues
from kernels.layout import NCHW, NHWC, Layouts, layouts_for
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Conv2d

INEXACT = "Winograd adds elements of a tile before it multiplies them: an infinity or a NaN spreads in it"
"""Why no config is exact."""


class WinogradPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack = panels
    body = emit


class Winograd(Kernel[Conv2d]):
    """Convolution by minimal filtering: filters of two rows and columns or more, ungrouped, stride 1 or 2.

    Rounding errors grow with the channels and with the points of the transform. Measured against float64 on
    normal data, relative to the largest output, for 16 to 1024 channels: 2e-7 to 1.4e-6 where the points are
    0, 1 and -1 only (F(2x2, 3x3), and 3x3 with stride 2 up to m = 3), 1e-6 to 3.1e-5 for all others, with
    F(6x6, 3x3) the largest. One infinity or NaN makes all results of its tiles NaN.

    Its knobs are those of ``plan.Knobs``.
    """

    name = "winograd"
    version = 5
    tolerance = 1e-4
    workload_type = Conv2d
    plan_type = WinogradPlan

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """Only where a tile saves products: filters of 2 to 7 taps a side with stride 1, 3 to 14 with stride
        2; no dilation, no groups."""
        if workload.stride[0] != workload.stride[1]:
            return "needs one stride for both directions"
        if workload.dilation != (1, 1) or workload.groups != 1:
            return "needs dilation and groups of 1"
        if min(workload.kh, workload.kw) == 1 or workload.stride[0] > 2 or not _sides(workload):
            return f"saves nothing on {workload.kh}x{workload.kw} filters with stride {workload.stride[0]}"
        return None

    def layouts(self, workload: Conv2d, target: Target) -> tuple[Layouts, ...]:
        """NCHW and blocked channels in all combinations, and NHWC; channels in whole vectors but in NCHW."""
        ends = [
            [word for word in layouts_for(channels, target) if word == NCHW or channels % target.lanes() == 0]
            for channels in (workload.in_c, workload.out_c)
        ]
        return tuple(
            Layouts(data, out) for data in ends[0] for out in ends[1] if (data == NHWC) == (out == NHWC)
        )

    def knobs(self, workload: Conv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Tile sizes, blocks of a handful to about a hundred tiles, two or three vectors of filters."""
        sides = _sides(workload)
        return {
            "m": sides,
            "tiles": sorted({size for m in sides for size in block_sizes(workload, m)}),
            "vectors": sorted({min(each, ceil_div(workload.out_c, target.lanes())) for each in (2, 3)}),
            **({"split": [TILES, POINTS]} if threads > 1 else {}),
        }

    def why_inexact(self, workload: Conv2d, config: Config) -> str | None:
        """No sum of the products that define a result: other elements of the tile cancel in it."""
        return INEXACT


def _sides(conv: Conv2d) -> list[int]:
    """The sides of output tiles worth a trial: each saves multiplications against all smaller ones.

    Beyond six the points run out; so does the accuracy.
    """
    found: list[int] = []
    fewest = conv.windows * conv.taps
    for m in range(2, 7):
        both, (down, across) = transforms(conv, m), tile_grid(conv, m)
        needed = down * across * both[0].tile * both[1].tile
        if all(each.exists for each in both) and needed < fewest:
            found.append(m)
            fewest = needed
    return found
