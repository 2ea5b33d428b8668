"""Depthwise quantized convolution on Hexagon: which workloads, and what can be tuned."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.int8 import requantize
from kernels.int8.dot.instructions import WAYS
from kernels.int8.flat.emit import emit
from kernels.int8.flat.plan import FlatPlan
from kernels.int8.hvx.instructions import BYTES, has_hvx
from kernels.int8.kernel import QuantizedKernel
from kernels.int8.tir import QArguments
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

MOST_TAPS = 64
"""All taps are unrolled."""


class EmittedPlan(FlatPlan):
    """A plan with what is made of it."""

    def body(self, args: QArguments) -> None:
        """Emit the code."""
        emit(self, args)


class QuantizedFlatDepthwise(QuantizedKernel):
    """One filter a channel, 128 bytes of a row at a time; its knobs are those of ``plan.Knobs``."""

    name = "qdepthwise_hvx"
    version = 3
    plan_type = EmittedPlan

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Depthwise convolutions of byte weights, whose rows have at least a vector of bytes."""
        if not has_hvx(target):
            return f"for Hexagon's vectors of {8 * BYTES} bits"
        if not workload.is_depthwise:
            return "needs one filter a channel"
        if workload.taps > MOST_TAPS:
            return f"more than {MOST_TAPS} taps"
        if min(workload.in_w, workload.out_w) * workload.in_c < BYTES:
            return f"rows of less than {BYTES} bytes"
        return WAYS["vrmpy"].why_not(workload, target)

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """One to four rows and blocks, whole planes and bands."""
        bands = (min(count, workload.out_h) for count in (1, 2, 4, 7, 14))
        return {
            "tall": [1, 2, 3, 4],
            "wide": [1, 2, 3, 4],
            "rows": sorted({ceil_div(workload.out_h, count) for count in bands}),
            "touch": [0, 1],
            "requant": requantize.choices(workload, target),
        }
