"""Two float convolutions, slice by slice, so that what is between them stays in the caches (seed 004)."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.chains.slices import CHANNELS, why_no_slices
from kernels.float.chain import cost
from kernels.float.chain.emit import emit
from kernels.float.chain.plan import AGAIN, CACHED, DIRECT, KEPT, ChainPlan
from kernels.kernel import Kernel, KnobValues
from kernels.layout import NCHW, NHWC, PLAIN, Layouts
from kernels.target import Target
from kernels.workload.base import ConvChain

HEIGHTS = (8, 1)
"""Rows of a block: 8 as in the seed, or one, for small caches."""


class EmittedPlan(ChainPlan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    body = emit


class Chain(Kernel[ConvChain]):
    """A pair of convolutions, each dense or depthwise; its knobs are those of ``plan.Knobs``."""

    name = "chain"
    version = 1
    workload_type = ConvChain
    plan_type = EmittedPlan

    def why_unfit(self, workload: ConvChain, target: Target) -> str | None:
        """No groups but of one channel. Its caches are no concern of fast memory: Hexagon computes floats on
        its scalar core, which that makes wait."""
        first, second = workload.parts
        return why_no_slices(first, "first") or why_no_slices(second, "second")

    def layouts(self, workload: ConvChain, target: Target) -> tuple[Layouts, ...]:
        """Pixels or planes; the blocks are those of the caches."""
        return (PLAIN, Layouts(NHWC, NHWC), Layouts(NCHW, NHWC), Layouts(NHWC, NCHW))

    def knobs(self, workload: ConvChain, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Slices from a row to all of the image, and from 32 channels to all."""
        first, second = workload.parts
        blocks = max(ceil_div(part.out_c, CHANNELS) for part in (first, second))
        kept = [] if threads > 1 or second.kh == 1 else [KEPT]
        lanes = min(CHANNELS, target.lanes())
        return {
            "h_split": sorted({min(count, second.out_h) for count in (1, 2, 3, 4, 7, 8, 14, 16)}),
            "k_split": sorted({min(count, blocks) for count in (1, 2, 4, 8, 16, blocks)}),
            "height": list(HEIGHTS),
            "adjacent": [AGAIN, *kept],
            "filters": [CACHED, DIRECT],
            "block": [
                f"{windows}x{vectors}"
                for vectors in (1, 2, 4)
                for windows in (8, 4, 2)
                if vectors * lanes <= CHANNELS
            ],
        }
