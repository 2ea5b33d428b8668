"""A quantized depthwise convolution and a pointwise one, in either order, as one kernel for Arm; exact.

Seed 001's kernels with seed 004's idea: what is between the two is larger than either end, and needed for a
few rows only.
"""

from __future__ import annotations

from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.depthwise.kernel import CHUNKS
from kernels.int8.arm.gemm.kernel import kinds_for
from kernels.int8.arm.gemm.plan import DATA, FEATURES, LONG_SIDE, TILES
from kernels.int8.arm.plan import why_not_neon
from kernels.int8.arm.separable import cost
from kernels.int8.arm.separable.emit import emit
from kernels.int8.arm.separable.plan import BYTES_SLAB, WORDS_SLAB, QSeparablePlan
from kernels.isa.arm import ARM32
from kernels.kernel import Kernel, KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.base import QConv2d, QConvChain

ROWS = (1, 2, 3, 4, 6, 7, 8)
COLUMNS = (4, 8)
TILES_OF_WINDOWS = (1, 2, 3, 4, 6)
LINES = (1, 2, 3, 4, 7, 8)
STRIPS = (1, 2, 4)


class EmittedPlan(QSeparablePlan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    body = emit


class QSeparable(Kernel[QConvChain]):
    """A depthwise convolution before or after a pointwise one; its knobs are those of ``plan.Knobs``."""

    name = "qseparable"
    version = 4
    workload_type = QConvChain
    plan_type = EmittedPlan
    dtypes = ("int8", "uint8")

    def why_unfit(self, workload: QConvChain, target: Target) -> str | None:
        """Only Arm with NEON, only bytes; one of the two is depthwise, the other a product of pixels."""
        if reason := why_not_neon(target):
            return reason
        for name, part in zip(("first", "second"), workload.parts, strict=True):
            if not part.scale_length:
                return f"the {name} convolution's results are no bytes"
        first, second = workload.parts
        reasons = [
            _why_not_points(first) or _why_not_spread(second),
            _why_not_spread(first) or _why_not_points(second),
        ]
        if None in reasons:
            return None
        return f"as pointwise, then depthwise: {reasons[0]}; the other way: {reasons[1]}"

    def knobs(self, workload: QConvChain, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Blocks of the pointwise convolution, and how much of what is between there is at a time."""
        first, second = workload.parts
        spread, points = (first, second) if first.is_depthwise else (second, first)
        channels = spread.in_c
        kinds = kinds_for(points, target)
        longest = [LONG_SIDE] if set(FEATURES) & set(kinds) else []
        lines, strips, chunks, slabs = [1], [1], [channels], [WORDS_SLAB, BYTES_SLAB]
        sides: tuple[int, ...] = COLUMNS
        if first.is_depthwise:
            slabs = [4, 16]
            lines = [count for count in LINES if second.out_h % count == 0]
            strips = [count for count in STRIPS if second.out_w % count == 0]
        else:
            chunks += [part for part in CHUNKS if part < channels and channels % part == 0]
            if not longest and target.isa is not ARM32:
                sides = COLUMNS[-1:]  # four results a row take more stores, and save no registers
        return {
            "block": kinds,
            "rows": [*ROWS, *longest],
            "columns": [each for each in (*sides, *longest) if each <= points.out_c] or [points.out_c],
            "rows_from": [TILES, DATA],
            "slab": slabs,
            "tile": [tile for tile in TILES_OF_WINDOWS if tile <= spread.out_w],
            "chunk": sorted(chunks),
            "lines": lines,
            "strips": strips,
        }


def _why_not_points(conv: QConv2d) -> str | None:
    """Why ``conv`` is no product of pixels, or None when it is."""
    return None if conv.is_pointwise else f"{conv} is not pointwise"


def _why_not_spread(conv: QConv2d) -> str | None:
    """Why ``conv`` does not have one filter a channel, or not enough of them; None when it has."""
    if not conv.is_depthwise:
        return f"{conv} has not one filter to each channel"
    return None if conv.in_c >= QUAD else f"{conv} has fewer than {QUAD} channels"
