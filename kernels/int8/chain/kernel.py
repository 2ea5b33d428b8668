"""Two quantized convolutions, slice by slice, by HVX's products of bytes (seed 004)."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.chains.memory import why_no_room
from kernels.chains.slices import CHANNELS, why_no_slices
from kernels.int8.chain import cost
from kernels.int8.chain.emit import emit
from kernels.int8.chain.plan import AGAIN, KEPT, Knobs, QChainPlan
from kernels.int8.dot.instructions import HVX_BITS
from kernels.isa.hexagon import HEXAGON
from kernels.kernel import Kernel, KnobValues
from kernels.layout import PLAIN, Layouts
from kernels.target import Target
from kernels.workload.base import QConvChain

HEIGHTS = (8, 1)
"""Rows of a block: 8 as in the seed, or one, for small caches."""
BLOCKS = ("4x4", "8x1", "8x2", "8x3", "4x3", "4x2", "4x1")
"""Windows x vectors of 32 channels in registers."""


class EmittedPlan(QChainPlan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    body = emit


class QChain(Kernel[QConvChain]):
    """A pair of dense convolutions; results are exact. Its knobs are those of ``plan.Knobs``."""

    name = "qchain"
    version = 1
    workload_type = QConvChain
    plan_type = EmittedPlan
    dtypes = ("int8", "uint8")

    def why_unfit(self, workload: QConvChain, target: Target) -> str | None:
        """Only HVX, only bytes, and the filters of 32 channels have to fit the fast memory."""
        if target.isa is not HEXAGON or target.integer_vector_bits != HVX_BITS:
            return f"for Hexagon's vectors of {HVX_BITS} bits"
        for name, part in zip(("first", "second"), workload.parts, strict=True):
            if reason := why_no_slices(part, name):
                return reason
            if part.is_depthwise:
                return f"the {name} convolution has one filter a channel"
            low, high = part.centered_range
            if not -128 <= low <= high <= 127:
                return f"the {name} convolution's weights from {low} to {high} do not fit int8"
            if not part.scale_length:
                return f"the {name} convolution's results are no bytes"
        first, second = workload.parts
        low, high = first.out_range
        if second.pad[3] and not low <= first.out_zero <= high:
            return "the first convolution's clamp leaves out the zero point that pads the second"
        least = EmittedPlan(workload, target, 1, Knobs(1, 1, 1, AGAIN, (1, 1)))
        full = why_no_room(target, least.fast_size)
        return f"no split fits: {full}" if full else None

    def knobs(self, workload: QConvChain, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Slices from a row to all of the image, and from 32 channels to all."""
        first, second = workload.parts
        blocks = max(ceil_div(part.out_c, CHANNELS) for part in (first, second))
        kept = [] if threads > 1 or second.kh == 1 else [KEPT]
        return {
            "h_split": sorted({min(count, second.out_h) for count in (1, 2, 3, 4, 6, 8, 12, 16)}),
            "k_split": sorted({min(count, blocks) for count in (1, 2, 4, 8, 16, blocks)}),
            "height": list(HEIGHTS),
            "adjacent": [AGAIN, *kept],
            "block": list(BLOCKS),
        }

    def layouts(self, workload: QConvChain, target: Target) -> tuple[Layouts, ...]:
        """NHWC, which quantized workloads always have."""
        return (PLAIN,)
