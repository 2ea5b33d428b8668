"""What a config of a chain of float convolutions should take."""

from __future__ import annotations

import math

from kernels.arithmetic import ceil_div
from kernels.chains.slices import CHANNELS
from kernels.emit import machine
from kernels.float.chain.plan import CACHED, ChainPlan

PLANES = 4.0
"""How much longer it takes to read or write a plane of a channel than pixels."""
TURN_CYCLES = 0.5
"""An element of filters on its way to the cache."""


def cycles(plan: ChainPlan) -> float:
    """Multiply-adds of both, the copies into and out of the caches, and the streams of memory."""
    slices, target, (windows, vectors) = plan.slices, plan.target, plan.knobs.block
    one, two = plan.workload.parts
    total = 0.0
    for part, work in ((one, slices.work - two.flops / 2), (two, two.flops / 2)):
        step = machine.step_cycles(target, windows, vectors) / (windows * vectors * plan.lanes)
        # Each value of a depthwise convolution is loaded for one product.
        product = 2 / (plan.lanes * target.loads_per_cycle) if part.is_depthwise else step
        filled = ceil_div(part.out_c, plan.lanes) * plan.lanes / part.out_c
        total += filled * work * product
    again = slices.channel_slices(two)
    data, out = math.prod(plan.workload.data_shape), math.prod(plan.workload.out_shape)
    slower = [PLANES if layout == "nchw" else 1.0 for layout in plan.layouts]
    total += machine.move_cycles(target) / plan.lanes * (data * again * slower[0] + 2 * out * slower[1])
    weights = sum(slices.filter_block(part) * slices.channel_blocks(part) for part in (one, two))
    if plan.knobs.filters == CACHED:
        total += TURN_CYCLES * weights * slices.count
    size = 4.0 * sum(plan.caches.values())
    total += machine.stream_cycles(target, 4.0 * slices.work / CHANNELS / windows, size)
    total += machine.cold_cycles(target, 4.0 * (data * again + out + weights))
    return total * ceil_div(slices.count, plan.threads) / slices.count
