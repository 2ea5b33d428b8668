"""Winograd along lines: fewer multiplications for filters of one row or one column, dilated or not."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.float.winograd.kernel import INEXACT
from kernels.float.winograd.pack import panels
from kernels.float.winograd.plan import POINTS, TILES
from kernels.float.winograd_lines import cost
from kernels.float.winograd_lines.emit import emit
from kernels.float.winograd_lines.lines import Lines
from kernels.float.winograd_lines.plan import Plan, block_sizes, sides
from kernels.kernel import Kernel, KnobValues
from kernels.layout import NCHW, Layouts, layouts_for
from kernels.space import Config
from kernels.target import Target
from kernels.workload.base import Conv2d


class LinesPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack = panels
    body = emit


class WinogradLines(Kernel[Conv2d]):
    """Convolution by minimal filtering in one direction: filters of one row or column, ungrouped.

    Rounding errors are those of ``winograd``, or smaller, as there is one transform instead of two.
    """

    name = "winograd_lines"
    version = 1
    tolerance = 1e-4
    workload_type = Conv2d
    plan_type = LinesPlan

    def why_unfit(self, workload: Conv2d, target: Target) -> str | None:
        """Only filters of 2 to 7 taps in a row or a column with stride 1 and any dilation, or of 3 to 14
        without dilation along rows with stride 2."""
        lines = Lines.of(workload)
        if lines is None or workload.groups != 1:
            return "needs filters of one row or one column, without padding across, and groups of 1"
        if lines.stride > 2 or (lines.stride == 2 and lines.dilation > 1):
            return "needs a stride of one, or of two without dilation"
        if not sides(lines):
            return f"saves nothing on {lines.out_length} results of {lines.taps} taps"
        return None

    def layouts(self, workload: Conv2d, target: Target) -> tuple[Layouts, ...]:
        """All combinations; channels in whole vectors but in NCHW."""
        ends = [
            [word for word in layouts_for(channels, target) if word == NCHW or channels % target.lanes() == 0]
            for channels in (workload.in_c, workload.out_c)
        ]
        return tuple(Layouts(data, out) for data in ends[0] for out in ends[1])

    def knobs(self, workload: Conv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Results of a tile, blocks of a handful to a hundred tiles, two or three vectors of filters."""
        lines = Lines.of(workload)
        assert lines is not None
        m = sides(lines)
        return {
            "m": m,
            "tiles": sorted({size for each in m for size in block_sizes(lines, each)}),
            "vectors": sorted({min(each, ceil_div(workload.out_c, target.lanes())) for each in (2, 3)}),
            **({"split": [TILES, POINTS]} if threads > 1 else {}),
        }

    def why_inexact(self, workload: Conv2d, config: Config) -> str | None:
        """As for ``winograd``."""
        return INEXACT
