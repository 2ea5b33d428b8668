"""Depthwise quantized convolution on x86 by vpmaddubsw: bytes are multiplied where they lie, padding is code.

Products are added in int16, as many taps as fit once the middle of their range is subtracted, and then in
pairs into int32. With weights of 7 bits two taps go at a time, with 8 bits one. From weights of uint8 that
would leave int8 without their zero something else is taken off, and the sum of the data makes up for it.
"""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.int8 import requantize
from kernels.int8.kernel import QuantizedKernel
from kernels.int8.x86.depthwise import cost, pack
from kernels.int8.x86.depthwise.emit import emit
from kernels.int8.x86.depthwise.plan import BAND, CHANNELS, NONE, PIXELS, ROWS, Plan
from kernels.int8.x86.instructions import why_not_x86
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

MOST_TAPS = 64
"""All taps are unrolled."""


class DepthwisePlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack_centered = pack.interleaved
    constants = pack.constants
    body = emit


class QuantizedDepthwiseBytes(QuantizedKernel):
    """One filter a channel, computed directly on bytes; its knobs are those of ``plan.Knobs``."""

    name = "qdepthwise_bytes"
    version = 2
    plan_type = DepthwisePlan

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Depthwise convolutions with one filter a channel and no more than ``MOST_TAPS`` taps."""
        if not workload.is_depthwise:
            return "needs one filter a channel"
        if workload.taps > MOST_TAPS:
            return f"more than {MOST_TAPS} taps"
        return why_not_x86(target)

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """One to four windows, whole planes and bands, all orders."""
        narrow = workload.out_c < target.vector_bits // 16
        bands = (min(count, workload.out_h) for count in (1, 2, 4, 7, 14, 28, 56))
        return {
            "stage": [BAND] if narrow else [NONE, BAND],
            "windows": [count for count in (1, 2, 3, 4) if count <= workload.out_w],
            "rows": sorted({ceil_div(workload.out_h, count) for count in bands}),
            "order": [CHANNELS, ROWS, PIXELS],
            "requant": requantize.choices(workload, target),
        }
