"""Quantized depthwise convolution on Arm, computed directly (seed 001).

Nothing is packed but the weights, when the model is built.
"""

from __future__ import annotations

from kernels.int8 import requantize
from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.depthwise import cost
from kernels.int8.arm.depthwise.emit import emit
from kernels.int8.arm.depthwise.pack import taps
from kernels.int8.arm.depthwise.plan import ALONG, APART, BAND, NONE, TOUCH, Plan, ways_to_multiply
from kernels.int8.arm.plan import why_not_neon
from kernels.int8.kernel import QuantizedKernel
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

TILES = (1, 2, 3, 4, 6)
BANDS = (1, 2, 4, 8, 14)
CHUNKS = (32, 48, 64, 72, 96, 128, 192, 384)
"""Parts of whole cache lines, or of what comes near."""


class DepthwisePlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack_centered = taps
    body = emit


class QuantizedDepthwise(QuantizedKernel):
    """Depthwise convolution; its knobs are those of ``plan.Knobs``."""

    name = "qdepthwise"
    version = 4
    plan_type = DepthwisePlan

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Only depthwise convolutions with one filter a channel, on Arm with NEON."""
        return why_not_neon(target) or (None if workload.is_depthwise else "not one filter to each channel")

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """All ways to multiply, copies of bands of the input or none, tiles and orders."""
        channels, rows = workload.in_c, workload.out_h
        return {
            "multiply": ways_to_multiply(workload),
            "stage": [NONE, TOUCH, BAND] if channels >= QUAD else [BAND],
            "band": [*(band for band in BANDS if band < rows), rows],
            "tile": [tile for tile in TILES if tile <= workload.out_w],
            "chunk": [*(part for part in CHUNKS if part < channels and channels % part == 0), channels],
            "edges": [APART, ALONG],
            "requant": requantize.choices(workload, target),
        }
