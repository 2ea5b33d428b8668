"""The machine model of the filter-vectorised convolution: cycles of one config."""

from __future__ import annotations

from kernels.arithmetic import ceil_div, even
from kernels.emit import machine
from kernels.emit.shares import sizes
from kernels.float.fconv.plan import FILTERS, INPUT_STATIONARY, WEIGHT_STATIONARY, WINDOWS, Plan

TURN_CYCLES = 4
"""Turning one vector of sums from window-major to filter-major: load, shuffles, store."""
TILE_CYCLES = 4
"""Between two micro-kernels whose sums are stored as they are; the rest overlaps with their products."""
RUN_CYCLES = 8
"""Going to another tap where a row of taps does not lie side by side."""
EXPOSED = 0.3
"""The part of loading weights from caches beyond L1 that costs time: they come in one stream."""
COLD = {WEIGHT_STATIONARY: 2.0, INPUT_STATIONARY: 0.45}
"""How much weights from memory cost beside a plain stream: a filter tile at a time (``ws``) the stream stops
and starts again, while a tile of windows (``is``) takes all weights in one stream beside its products."""


def cycles(plan: Plan) -> float:
    """Of the busiest thread for all images."""
    cold = machine.cold_cycles(plan.target, plan.packed_length * 4.0)
    compute, weights, windows = _compute(plan), _weights(plan), _windows(plan)
    if plan.source.run == 1 and plan.turned:
        image = max(compute + machine.exposed(plan.target, 0.0) * weights, weights) + windows
    else:
        cold *= COLD[plan.knobs.order]
        image = compute + machine.exposed(plan.target, EXPOSED) * weights + windows
    return cold + plan.conv.n * image * _share(plan)


def _share(plan: Plan) -> float:
    """The part of the work that the busiest thread has."""
    threads = plan.threads
    if plan.split == FILTERS:
        full, odd = divmod(plan.vector_count, plan.vectors)
        shares = sizes(full, odd > 0, threads)
        return max(whole * plan.vectors + edge * odd for whole, edge in shares) / plan.vector_count
    if plan.split == WINDOWS:
        blocks = ceil_div(plan.conv.windows, plan.block)
        return min(1.0, ceil_div(blocks, threads) * plan.block / plan.conv.windows)
    return 1.0


def _compute(plan: Plan) -> float:
    """Cycles of the arithmetic for one image, of turning the sums, and of the padded copy."""
    target, store = plan.target, machine.store_cycles(plan.target)
    together = machine.paired(target) if plan.source.run == 1 else 1
    if plan.by_lanes:
        together = plan.lanes
    steps = plan.conv.in_c * plan.conv.taps
    pitch = 4 * plan.source.run * plan.source.pixels.column_step
    broken_runs = plan.channel_sets * plan.conv.taps if plan.one_run and not plan.rows_join else 0
    total = 0.0
    full, odd = divmod(plan.vector_count, plan.vectors)
    blocks = [(plan.block, plan.conv.windows // plan.block), (plan.conv.windows % plan.block, 1)]
    for count, times in blocks:
        for size, tiles in even(count, plan.tile_windows):
            for vectors, filter_tiles in ((plan.vectors, full), (odd, 1 if odd else 0)):
                step = machine.step_cycles(target, size, vectors, together=together)
                step *= machine.crowding(target, size, pitch)
                sums = plan.channel_sets * (machine.CALL_CYCLES + size * vectors * store)
                if not plan.turned:
                    sums = TILE_CYCLES + (plan.channel_sets * store - 1) * size * vectors
                    sums += RUN_CYCLES * broken_runs
                total += times * tiles * filter_tiles * (steps * step + sums)
    if not plan.turned:
        return total + plan.source.copy_cycles
    squares = plan.vector_count * ceil_div(plan.conv.windows, plan.lanes)
    return total + squares * TURN_CYCLES * plan.lanes + plan.source.copy_cycles


def _windows(plan: Plan) -> float:
    """Cycles of loading windows into L1 again for another filter tile.

    Where a window's elements lie a plane apart, a tile of windows takes at least a cache line for each.
    Lines are loaded again when they, and the weights that pass by, are more than L1 holds. Where the costs of
    streams were measured, those lines are none: they wait, the first time as well.
    """
    target, conv = plan.target, plan.conv
    apart = plan.source.run == 1 and target.l2_stream_cycles > 0
    load = machine.scattered_cycles if apart else machine.stream_cycles
    pitch = 4.0 * plan.source.pixels.column_step
    if plan.source.run == 1:
        whole_tile = 1 + (plan.tile_windows - 1) * pitch / target.line_bytes
    else:
        whole_tile = plan.tile_windows * pitch / target.line_bytes
    depth = plan.knobs.channels * plan.conv.kh
    tile_bytes = whole_tile * depth * target.line_bytes
    weights = 4.0 * plan.knobs.channels * plan.conv.taps * plan.filters
    total = 0.0
    for count, times in ((plan.block, plan.conv.windows // plan.block), (plan.conv.windows % plan.block, 1)):
        tiles = times * ceil_div(count, plan.tile_windows)
        if plan.knobs.order == WEIGHT_STATIONARY:
            footprint = count * plan.knobs.channels * pitch + weights
            shared = tile_bytes + weights <= target.l1_bytes
            lines = min(1.0, plan.tile_windows * pitch / target.line_bytes) if shared else whole_tile
        else:
            footprint, lines = tile_bytes + 2 * weights, whole_tile
        size = tiles * lines * depth * target.line_bytes
        total += load(target, size, footprint)
    whole = 4.0 * conv.in_c * plan.source.pixels.channel_pitch
    results = 4.0 * conv.out_c * conv.windows
    first = machine.scattered_cycles(target, whole, whole + results) if apart else 0.0
    return first + total * (plan.filter_tiles - 1) * plan.channel_sets


def _weights(plan: Plan) -> float:
    """Cycles of loading weights again, at the distance at which each is used again."""
    target = plan.target
    blocks = ceil_div(plan.conv.windows, plan.block)
    tiles = plan.conv.windows / plan.tile_windows
    weights = 4.0 * plan.packed_length
    windows = 4.0 * plan.conv.in_c * plan.source.pixels.channel_pitch
    again = (blocks - 1) * machine.stream_cycles(target, weights, weights + windows / blocks)
    in_use = weights / (plan.filter_tiles if plan.knobs.order == WEIGHT_STATIONARY else 1) / plan.channel_sets
    # A block of fewer windows than a tile has is one tile all the same.
    return again + max(0.0, tiles - blocks) * machine.stream_cycles(target, weights, in_use)
