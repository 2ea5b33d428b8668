"""What a config of a chain of quantized convolutions should take."""

from __future__ import annotations

import math

from kernels.arithmetic import ceil_div
from kernels.chains.slices import CHANNELS
from kernels.emit import machine
from kernels.int8.chain.plan import QChainPlan
from kernels.int8.hvx.instructions import BYTES

FINISH_CYCLES = 3.0
"""Scaling, narrowing and storing a vector of sums."""
PRODUCTS = 2.0
"""Products of vectors a packet."""
LOAD_CYCLES = 1.0
"""A vector of filters or a pair of units."""
FILL_CYCLES = 2.0
"""A vector of filters on its way to the cache."""


def cycles(plan: QChainPlan) -> float:
    """Products of both, the copies into and out of the caches, and the streams of memory."""
    slices, windows = plan.slices, plan.knobs.block[0]
    one, two = plan.workload.parts
    total = units = 0.0
    for part, work in ((one, slices.work - two.flops / 2), (two, two.flops / 2)):
        vectors = plan.together(part)
        filled = slices.channel_blocks(part) * CHANNELS / part.out_c
        products = work * filled / (4 * CHANNELS)
        units += work * filled / (CHANNELS * vectors)
        total += products * max(1 / PRODUCTS, LOAD_CYCLES * (vectors + windows / 2) / (windows * vectors))
        total += work / (part.flops / 2) * part.windows * slices.channel_blocks(part) * FINISH_CYCLES
    again = slices.channel_slices(two)
    data, out = math.prod(plan.workload.data_shape), math.prod(plan.workload.out_shape)
    filters = sum(slices.filter_block(part) * slices.channel_blocks(part) for part in (one, two))
    total += (
        machine.move_cycles(plan.target) / 64 * (data * again + out)
        + FILL_CYCLES / BYTES * filters * slices.count
    )
    total += _fetch_cycles(plan, units)
    total += machine.cold_cycles(plan.target, data * again + out + filters)
    return total * ceil_div(slices.count, plan.threads) / slices.count


def _fetch_cycles(plan: QChainPlan, units: float) -> float:
    """Bringing ``units`` bytes of slices to L1, for scalar loads, where the slices do not stay there."""
    target, slices = plan.target, plan.slices
    size = max(slices.source.elements, slices.result.elements) + slices.between.elements
    if size <= target.l1_bytes:
        return 0.0
    # What is streamed through L2 beside them needs room, too.
    line = target.l2_cycles if size <= target.l2_bytes / 2 else target.dram_cycles
    return units / target.line_bytes * line
