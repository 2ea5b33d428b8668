"""What a config of the exact Winograd convolution on Arm should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.finish import finish_cycles
from kernels.int8.arm.winograd.plan import LANES, Plan

LOW_BLOCK = 0.7
"""What a block saves of a step for each of its tiles that are missing."""


def cycles(plan: Plan) -> float:
    """Products, transforms, and what does not stay near between them."""
    conv, target, block = plan.conv, plan.target, plan.block
    points, count = plan.points, plan.points.count
    vector = 1 / target.fmas_per_cycle
    blocks = float(ceil_div(plan.windows, block.rows))
    step = max(block.cycles * vector, (block.rows + 8) / target.loads_per_cycle)
    if plan.windows % block.rows:  # the last block is lower, and loads as many filters
        blocks -= LOW_BLOCK * (1 - plan.windows % block.rows / block.rows)
    panels = plan.passes * plan.width / block.panel
    each = plan.taps * (plan.steps * step + machine.CALL_CYCLES / 4) + machine.CALL_CYCLES
    each += block.accumulators * machine.move_cycles(target)
    total = count * blocks * panels * each
    forward = plan.groups * plan.cells * plan.channels / LANES
    total += forward * count * (machine.move_cycles(target) + 4 * vector)
    back = count + points.results * (count / 2 + 2 + finish_cycles(plan.knobs.requant, target))
    total += plan.windows * plan.passes * plan.width / QUAD * back * vector
    weights, data, sums = 2 * plan.packed_length, 2 * plan.transformed, 4 * count * plan.sums
    slab = 2 * plan.knobs.slab * block.rows * plan.depth
    panel = 2 * block.panel * plan.depth
    near = weights / plan.passes / count
    slabs = ceil_div(plan.windows, block.rows * plan.knobs.slab)
    whole = weights + data + sums + 2 * plan.copy.elements
    whole += (conv.in_h * conv.in_w * conv.in_c + conv.windows * conv.out_c) // plan.bands
    total += machine.stream_cycles(target, weights + data, whole)
    total += (slabs - 1) * machine.stream_cycles(target, weights, slab + near)
    total += (panels - 1) * count * slabs * machine.stream_cycles(target, slab, 2.0 * (slab + panel))
    total += plan.passes * machine.stream_cycles(target, data + 2 * sums, data + sums + near)
    return conv.n * plan.bands * total + machine.cold_cycles(target, weights) / 2
