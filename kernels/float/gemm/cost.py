"""What a GEMM config should take: the micro-kernels' steps, and each operand's traffic."""

from __future__ import annotations

import math

from kernels.arithmetic import ceil_div
from kernels.emit import machine, shares
from kernels.float.gemm.plan import Plan

RELOADED = 1e-4
"""What counts of loads that arithmetic hides: of equal blocks the one that loads least is taken."""


def cycles(plan: Plan) -> float:
    """Micro-kernel steps of the thread with most, plus each operand's traffic at the distance at which it is
    used again."""
    gemm, target, kc = plan.workload, plan.target, plan.kc
    compute = max(
        _share_cycles(plan, panels, tiles)
        for panels in shares.sizes(plan.whole_panels, plan.edge_columns > 0, plan.parts[0])
        for tiles in shares.sizes(plan.whole_tiles, plan.edge_rows > 0, plan.parts[1])
    )
    weights, data = 4.0 * gemm.k * plan.panels * plan.width, 4.0 * gemm.m * gemm.k
    panel = 4.0 * kc * (plan.width + plan.rows)
    block = panel + 4.0 * kc * min(plan.mc, gemm.m)
    m_blocks = ceil_div(gemm.m, plan.mc)
    reloads = (plan.tiles - m_blocks) * machine.stream_cycles(target, weights, panel)
    reloads += (m_blocks - 1) * machine.stream_cycles(target, weights, 4.0 * kc * min(plan.nc, gemm.n))
    cold, again = machine.cold_cycles(target, weights), machine.stream_cycles(target, data, block)
    if again and plan.rows >= target.streams:  # each row is a stream, and so is the panel
        cold = machine.scattered_cycles(target, weights, math.inf)
        again = machine.scattered_cycles(target, data, block)
    reloads += plan.panels * again
    reloads /= plan.threads
    busy = max(compute, reloads) + RELOADED * min(compute, reloads) + plan.packing_cycles / plan.threads
    return machine.overlapped(busy, cold)


def _share_cycles(plan: Plan, panels: tuple[int, int], tiles: tuple[int, int]) -> float:
    """The micro-kernels of so many (whole, narrower) panels and (whole, lower) row tiles."""
    gemm, knobs = plan.workload, plan.knobs
    sums = ceil_div(gemm.k, plan.kc)
    total = 0.0
    for rows, count in zip((plan.rows, plan.edge_rows), tiles, strict=True):
        if count:
            step = plan.step_cycles(rows) * machine.crowding(plan.target, rows, 4 * gemm.k)
            call = gemm.k * step + sums * (
                machine.CALL_CYCLES + rows * knobs.vectors * machine.move_cycles(plan.target)
            )
            total += count * sum(panels) * call
    return total
