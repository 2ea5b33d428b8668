"""What a config of the grouped convolution should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div, even
from kernels.emit import machine
from kernels.float.grouped.plan import FILTERS, Plan

CALL_CYCLES = 3
"""Starting one register block: addresses and loop control, mostly overlapped with the one before."""


def cycles(plan: Plan) -> float:
    """Multiply-adds, loads and stores of every register block, and the copies.

    The costs add up: blocks are so short that what one waits for is seldom hidden by another.
    """
    conv = plan.conv
    group, layout = plan.group, plan.layout
    total = layout.copy_cycles
    for filters, filter_blocks in even(group.out_c, plan.knobs.filters):
        for rows, row_blocks in even(plan.lines, plan.knobs.rows):
            for vectors, strips in plan.strips:
                step = _step_cycles(plan, filters, rows, vectors)
                ends = CALL_CYCLES + filters * rows * vectors * machine.store_cycles(plan.target)
                total += filter_blocks * row_blocks * strips * (group.in_c * step + ends)
    if plan.knobs.flat:
        total += group.out_c * group.out_h * (3 * ceil_div(group.out_w, plan.lanes) + 3)
    total *= conv.n * conv.groups
    weights = machine.cold_cycles(plan.target, 4.0 * plan.packed_length)
    shared, again = conv.n * conv.groups, 0.0
    if plan.split == FILTERS:
        # Every thread copies the whole input for itself.
        shared, again = plan.filter_blocks, shared * layout.copy_cycles
    share = ceil_div(shared, plan.threads) / shared
    return machine.overlapped(total, weights) * share + again * (1 - share)


def _step_cycles(plan: Plan, filters: int, rows: int, vectors: int) -> float:
    """One register block's work for one input channel."""
    layout, group = plan.layout, plan.group
    accumulators = filters * rows * vectors
    if filters > 1:
        values, weights = rows * vectors * plan.conv.taps, filters * plan.conv.taps
    else:
        lines = {i * layout.row_pitch + r * layout.tap_pitch for i in range(rows) for r in range(group.kh)}
        values = len(lines) * group.kw * vectors
        # Few accumulators leave room for the weights, which then stay from block to block.
        stay = group.in_c == 1 and accumulators + plan.conv.taps + 3 <= plan.target.vector_registers
        weights = 0 if stay else rows * plan.conv.taps
    chain = plan.conv.taps * plan.target.fma_latency / 2
    return max(accumulators * plan.conv.taps / plan.target.fmas_per_cycle, chain) + values / 3 + weights / 2
