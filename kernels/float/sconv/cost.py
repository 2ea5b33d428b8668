"""What an SConv config should take: arithmetic and packing, or the loads that the slicing analysis counts."""

from __future__ import annotations

import math

from kernels.arithmetic import ceil_div
from kernels.emit import machine, shares
from kernels.float.sconv.csa import INPUT_STATIONARY, NEAR, WEIGHT_STATIONARY, Slicing
from kernels.float.sconv.plan import Plan

SHIFTING = 1.05
"""A shift takes about as long as the load that it saves, and is written after those."""

TURN = 3.0
"""Cycles to go on to the next tile where several are packed channel by channel."""


def cycles(plan: Plan) -> float:
    """Micro-kernel steps, packing and padding, or the analysis's reloads when those are more.

    The analysis's cold loads are left out: they are the same for all its slicings of one block, and count a
    packed input as if it came from memory. The weights' are added, as for every kernel.
    """
    target, slicing = plan.target, plan.slicing
    weights = machine.cold_cycles(target, plan.packed_length * 4.0)
    if plan.products.hides_loads:
        reloads = _stream_cycles(slicing) / plan.threads
        waits = machine.exposed(target, 0.0) * (_weights_again(slicing) + _packed_lines(plan)) / plan.threads
        return weights + plan.conv.n * max(_compute_cycles(plan) + waits, reloads)
    overflow = target.l2_cycles * slicing.l1_overflow_lines
    # What is packed is a stream that prefetchers follow; windows in place are a line of each channel.
    in_flight = target.misses_in_flight if plan.packed else machine.ALONE
    again = _near_reload_cycles(slicing) if _waits_in_l1(plan) else slicing.reload_cycles
    return weights + plan.conv.n * (_compute_cycles(plan) + (again + overflow) / in_flight / plan.threads)


def _stream_cycles(slicing: Slicing) -> float:
    """All loads again, as streams from their levels."""
    target = slicing.target
    lines: list[tuple[float, machine.Level | None]] = [
        (slicing.reloaded_lines, "dram"),
        (slicing.l3_lines, "l3" if target.l3_bytes else "dram"),
        (slicing.l2_lines, machine.level_of(target, max(slicing.moving_bytes, target.l1_bytes + 1))),
        (slicing.l1_overflow_lines, "l2"),
    ]
    return sum(machine.lines_cycles(target, *each) for each in lines)


def _weights_again(slicing: Slicing) -> float:
    """Weights that pass each tile of windows, or do not stay for the next one: a stream, while windows are
    prefetched."""
    lines = slicing.l2_lines if slicing.order == INPUT_STATIONARY else slicing.l1_overflow_lines
    return machine.lines_cycles(slicing.target, lines, "l2")


def _packed_lines(plan: Plan) -> float:
    """Waits for lines of planes, which nothing prefetches while windows are packed, and packed lines on their
    way to where the buffer lies: loaded before they are written, and written back."""
    slicing = plan.slicing
    if not plan.packed:
        return 0.0
    buffer = slicing.moving_bytes if slicing.order == WEIGHT_STATIONARY else slicing.in_tile
    # What is packed passes the caches beside the buffer.
    size = 4.0 * plan.conv.windows * plan.conv.in_c * plan.conv.taps
    data, out = 4.0 * math.prod(plan.conv.data_shape), 4.0 * math.prod(plan.conv.out_shape)
    waits = machine.scattered_cycles(plan.target, data / plan.conv.n, (data + out) / plan.conv.n)
    return waits + 2 * machine.stream_cycles(plan.target, size, 2.0 * buffer)


def _waits_in_l1(plan: Plan) -> bool:
    """Whether the moving tiles do. Of several channel sets the sums wait in lines of their own, in order."""
    return plan.slicing.near and plan.channel_sets == 1


def _near_reload_cycles(slicing: Slicing) -> int:
    """Loads again where the moving tiles wait in L1: the stationary ones for each further set of those."""
    target = slicing.target
    line = target.l2_cycles if slicing.cold_lines * target.line_bytes <= target.l2_bytes else target.l3_cycles
    return target.dram_cycles * slicing.reloaded_lines + line * slicing.l3_lines


def _compute_cycles(plan: Plan) -> float:
    """Cycles for one image of the thread with most to do, and of its part of the copy that all read.

    They are those of the arithmetic and of packing windows: each thread packs those that it needs.
    """
    tile_shares = shares.sizes(plan.full_tiles, plan.tail > 0, plan.parts[0])
    most = max(_share_cycles(plan, tiles, filters) for tiles in tile_shares for filters in plan.filter_shares)
    return most + plan.layout.copy_cycles / plan.threads


def _share_cycles(plan: Plan, tiles: tuple[int, int], filters: tuple[int, int]) -> float:
    """Cycles of so many (full, narrower) window tiles with so many (full, smaller) filter tiles."""
    depth = plan.conv.in_c * plan.conv.taps
    total = 0.0
    for vectors, count in zip((plan.vectors, plan.tail_vectors), tiles, strict=True):
        for size, filter_tiles in zip((plan.filters, plan.odd_filters), filters, strict=True):
            step = plan.products.step_cycles(plan.target, size, vectors, plan.packed)
            moved = machine.CALL_CYCLES + size * vectors * machine.store_cycles(plan.target)
            results = size * _result_cycles(plan, vectors * plan.lanes * 4)
            if plan.sums_apart:  # in order, by whole accumulators
                sums = plan.channel_sets * moved + results
            else:
                sums = plan.channel_sets * (moved + results)
            total += count * filter_tiles * (depth * step + sums)
        if plan.packed:
            moves = plan.packing_moves * vectors / plan.vectors / plan.moved_together(vectors)
            row = moves * machine.move_cycles(plan.target) * (SHIFTING if plan.shifted else 1.0)
            row += TURN if plan.packed_ahead > 1 else 0.0
            total += count * depth * plan.packing_passes * row
        elif not plan.products.hides_loads:
            total += count * plan.conv.in_c * plan.conv.kh * _row_cycles(plan, 4.0 * vectors * plan.lanes)
    return total


def _row_cycles(plan: Plan, size: float) -> float:
    """Cycles to wait for a row of ``size`` bytes of windows that are read in place, which nothing foresees.

    Where a tile takes up little of L1 its neighbour finds the rest of the lines there.
    """
    target = plan.target
    near = plan.slicing.in_tile <= target.l1_bytes * NEAR
    return target.l2_cycles * (size / target.line_bytes + (0.0 if near else 1.0))


def _result_cycles(plan: Plan, size: int) -> float:
    """Cycles to get the lines of one filter's ``size`` bytes of results in a tile.

    A tile that does not fill its lines has some that its neighbours load again. Without prefetches a line of
    another plane is waited for, and those behind it follow where neighbours are next.
    """
    target, footprint = plan.target, 4.0 * plan.conv.out_c * plan.conv.windows
    written = 1
    if plan.channel_sets > 1 and target.l2_stream_cycles:
        # Until products of the next channels are added, the windows of both sets and the filters have passed.
        conv, channels = plan.conv, plan.slicing.n_c
        footprint += 4.0 * channels * (2 * conv.in_h * conv.in_w + conv.out_c * conv.taps)
        written = 2 if footprint > max(target.l2_bytes, target.l3_bytes) else 1

    def stream(lines: int) -> float:
        return machine.stream_cycles(target, lines * target.line_bytes, footprint)

    if plan.products.prefetches:
        return written * stream(ceil_div(size, target.line_bytes))
    beside = plan.k2 if _waits_in_l1(plan) and plan.knobs.order == WEIGHT_STATIONARY else 1
    following = ceil_div(beside * size, target.line_bytes) - 1
    waited = machine.latency(target, machine.level_of(target, footprint))
    return (waited + stream(following)) / beside
