"""What a config of the quantized convolution with groups on Arm should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.int8.arm.finish import finish_cycles
from kernels.int8.arm.grouped.plan import LANE, Plan

SPILLED = 1.7
"""How much slower a block is whose operands do not fit the registers beside its sums."""


def cycles(plan: Plan) -> float:
    """Products and loads of blocks, the copy, and what leaves L1 in between."""
    conv, target, band = plan.conv, plan.target, plan.band
    windows, words = plan.knobs.block[0], plan.knobs.multiply == LANE
    blocks = plan.knobs.rows * ceil_div(conv.out_w, windows)
    finish = finish_cycles(plan.knobs.requant, target)
    total = 0.0
    for tile in plan.tiles:
        sums = windows * tile.quads
        # smlal multiplies half a vector, and both take turns with nothing but loads.
        units = plan.channels // plan.unit
        products = conv.taps * units * sums / (2 if words else 1) / target.fmas_per_cycle
        loads = conv.taps * (ceil_div(conv.depth, plan.lanes) * windows + units * tile.quads)
        step = max(products, loads / target.loads_per_cycle)
        if sums + tile.quads + windows > target.vector_registers:
            step *= SPILLED
        each = step + machine.CALL_CYCLES + sums * finish
        total += tile.count * conv.groups * blocks * each
    size = 2 if words else 1
    copied, weights = size * band.elements, size * plan.packed_length
    total += copied / 16 * 1.5 * machine.move_cycles(target)
    # A tile of a group walks over the whole band, and takes of each line but its own channels.
    walks = conv.groups * sum(tile.count for tile in plan.tiles)
    touched = min(copied, band.height * band.columns * max(size * conv.depth, target.line_bytes))
    total += machine.stream_cycles(target, walks * touched, 2.0 * copied)
    total += machine.stream_cycles(target, weights, weights + copied)
    return ceil_div(plan.bands, plan.threads) * total + machine.cold_cycles(target, weights) / 2
