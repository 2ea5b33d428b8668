"""What a config of a quantized depthwise convolution beside a pointwise one on Arm should take."""

from __future__ import annotations

import math
from dataclasses import replace

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.int8.arm.depthwise import cost as depthwise
from kernels.int8.arm.gemm import cost as gemm
from kernels.int8.arm.separable.plan import QSeparablePlan

CROWDED = 1.5
"""How much of a cache of few ways rows take that lie beside each other."""
FULL = 1.25
"""The same for filters and rows, which all are read in order."""
SCATTERED = 2.0
"""How much longer lines take that no prefetcher sees coming, as windows walk through several rows at once."""


def cycles(plan: QSeparablePlan) -> float:
    """Both convolutions, rows into and out of the cache, input and result through memory."""
    target, spread = plan.target, plan.depthwise
    product = plan.product(replace(plan.pointwise, out_c=plan.points_plan.conv.out_c))
    total = plan.runs * gemm.work(product) + plan.knobs.strips * depthwise.work(plan.depthwise_plan)
    data, out = (float(math.prod(shape)) for shape in (plan.workload.data_shape, plan.workload.out_shape))
    taken = float(math.prod(spread.data_shape))
    # Each run of channels, and each step of rows, is a product that reads the filters again.
    points = plan.points_plan
    filters = points.packed_length * (2.0 if points.packed_dtype == "int16" else 1.0)
    again = plan.runs * plan.pointwise.n * plan.pointwise.windows / points.windows
    total += again * machine.stream_cycles(target, filters, FULL * (filters + plan.cached + plan.between))
    # Rows are read as often as the filter reaches them, beside what the pointwise convolution reads or makes.
    near = CROWDED * (plan.cached + plan.between + plan.points_plan.packed_length)
    total += SCATTERED * machine.stream_cycles(target, taken * spread.kh / spread.stride[0], near)
    if plan.spreads_first:
        total += taken / 16 * machine.move_cycles(target)
        total += machine.stream_cycles(target, 2.0 * spread.windows * spread.out_c, near)
    else:
        # Each run of channels reads all of the input, and writes parts of lines.
        total += plan.turns * machine.stream_cycles(target, data, data + near)
        line, chunk = target.line_bytes, plan.knobs.chunk
        split = ceil_div(chunk, line) * line / chunk
        walk = 1 + depthwise.SCATTERED * (plan.knobs.tile - 1)
        total += split * walk * machine.stream_cycles(target, out, out + near)
    rows = spread.out_h if not plan.spreads_first else spread.out_h // plan.knobs.lines
    total += machine.cold_cycles(target, data + out)
    return total * ceil_div(rows, plan.threads) / rows
