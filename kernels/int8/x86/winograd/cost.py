"""What a config of the exact quantized Winograd convolution should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.int8.x86.instructions import FORK_CYCLES
from kernels.int8.x86.winograd.plan import BANDS, BLOCKS, Plan

# Fitted to 470 configs of ten layers on one core of a Zen 4.
PRODUCT_CYCLES, STEP_CYCLES, HINT_CYCLES = 0.58, 0.6, 0.15
"""One vector of products and sums; each turn of the loop around a block of them, and a prefetch in it."""
TRANSFORM_CYCLES = 9.5
"""One vector of the data at one point."""
RESULT_CYCLES, SLAB_CYCLES = 11.5, 8.0
"""One vector of results, from the sums of the points to bytes; and each further slab's part of it."""
AHEAD, WAITING = 2.0, 4.5
"""How much longer filters take to arrive than the caches need, asked for in time and not."""
SCATTERED_CYCLES = 0.5
"""A line of filters from beyond L2 that does not follow the one before: a tile of filters at all points."""


def cycles(plan: Plan) -> float:
    """Matrix products, both transforms, and the traffic of weights and of what is transformed."""
    target, knobs = plan.target, plan.knobs
    weights, data, sums = plan.sizes
    held = data + sums
    panels = ceil_div(plan.filters // plan.lanes, plan.vectors)
    stream = machine.stream_cycles(target, panels * data if plan.filters_outside else 2 * held, held)
    near = knobs.prefetch or weights + held <= target.l2_bytes
    again = machine.stream_cycles(target, weights, weights + held) * (AHEAD if near else WAITING)
    if plan.filters_outside and weights > target.l2_bytes:
        stream += SCATTERED_CYCLES * weights / target.line_bytes
    blocks = plan.parts * (plan.bands if knobs.split == BLOCKS else ceil_div(plan.bands, plan.threads))
    total = blocks * (_compute_cycles(plan) + stream) + (blocks - 1) * again
    cold = machine.cold_cycles(target, weights)
    total = machine.overlapped(total, cold) if knobs.prefetch else total + cold
    if plan.threads == 1:
        return total
    if knobs.split == BANDS:
        return total + FORK_CYCLES
    # Each thread reads its own filters; they meet after both transforms and the products of each block.
    return ceil_div(plan.points, plan.threads) * total / plan.points + 3 * blocks * FORK_CYCLES


def _compute_cycles(plan: Plan) -> float:
    """The arithmetic of the tiles that are transformed at a time."""
    tiles, vectors = plan.tiles, plan.filters // plan.lanes
    turns = ceil_div(tiles, plan.block) * ceil_div(vectors, plan.vectors)
    steps = plan.points * plan.units
    turn = STEP_CYCLES + HINT_CYCLES * plan.knobs.prefetch
    arithmetic = steps * (PRODUCT_CYCLES * tiles * vectors + turn * turns)
    loads = turns * steps * (plan.block + plan.vectors) / plan.target.loads_per_cycle
    forward = TRANSFORM_CYCLES * tiles * plan.points * ceil_div(plan.conv.in_c, 2 * plan.lanes)
    back = RESULT_CYCLES + SLAB_CYCLES * (plan.slabs - 1)
    return max(arithmetic, loads) + forward + back * tiles * plan.results * vectors
