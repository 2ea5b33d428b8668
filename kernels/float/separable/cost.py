"""What a config of a depthwise convolution beside a pointwise one should take."""

from __future__ import annotations

import math

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.float.depthwise import cost as depthwise
from kernels.float.separable.plan import LANE, SeparablePlan
from kernels.layout import NHWC

FINISH_CYCLES = 1.0
"""A vector of results, before it is stored."""
HIDDEN = 0.5
"""The part of the wait for a line of the second cache that other work hides."""


def cycles(plan: SeparablePlan) -> float:
    """Multiply-adds of both, what is between through the caches, input and result through memory."""
    target, data, out = plan.target, plan.workload.data_shape, plan.workload.out_shape
    work = _points(plan) + _spread(plan) + _lines(plan)
    work = machine.overlapped(work, machine.cold_cycles(target, 4.0 * (math.prod(data) + 2 * math.prod(out))))
    rows = plan.workload.second.out_h
    return work * ceil_div(rows, plan.threads) / rows


def _points(plan: SeparablePlan) -> float:
    """The pointwise convolution. Loads and multiply-adds share the front of the core."""
    target, (windows, _), points = plan.target, plan.knobs.block, plan.pointwise
    sums = windows * plan.together
    loaded = windows / plan.lanes if plan.knobs.broadcast == LANE else windows
    loads = (loaded + plan.together) / target.loads_per_cycle
    step = max(machine.overlapped(sums / target.fmas_per_cycle, loads), target.fma_latency) / sums
    each = points.in_c * step + FINISH_CYCLES + machine.store_cycles(target) + machine.CALL_CYCLES / sums
    return points.n * points.windows * plan.groups * plan.together * each


def _spread(plan: SeparablePlan) -> float:
    """The depthwise convolution."""
    spread = plan.depthwise_plan
    work = depthwise.work(spread) * spread.conv.n * spread.groups
    if plan.spreads_first and plan.layouts.data == NHWC:
        work += depthwise.scattered_cycles(spread)
    return work


def _lines(plan: SeparablePlan) -> float:
    """Waits for lines of the second cache: what is between, and what is read again."""
    spread, points = plan.depthwise, plan.pointwise
    filters, between = 4.0 * points.in_c * plan.together * plan.lanes, 4.0 * plan.between
    taken = 4.0 * math.prod(spread.data_shape)
    if plan.spreads_first:
        rows = plan.knobs.rows
        # A slice reads rows that the one before has read; each group reads all that is between, brings its
        # filters, and writes beside that.
        again = (rows * spread.stride[0] + plan.ring - 1) / (rows * spread.stride[0])
        turns = spread.n * ceil_div(spread.out_h, rows)
        written = 4.0 * rows * spread.out_w * plan.together * plan.lanes
        whole = between + again * taken / turns
        lines = _waits(plan, taken * again, whole)
        lines += turns * _waits(
            plan, between * (1 + plan.groups), max(between + filters + written, whole / 2)
        )
        return lines + turns * _waits(plan, filters * plan.groups, between + filters * plan.groups)
    # Each group reads all of the input; a row of it, the rows between and a row of the result are at hand.
    data, width = 4.0 * math.prod(points.data_shape), 4.0 * plan.together * plan.lanes
    row = 4.0 * points.in_w * points.in_c + width * spread.out_w
    return plan.groups * _waits(plan, data, data) + _waits(plan, 2 * taken, between + filters + row)


def _waits(plan: SeparablePlan, size: float, footprint: float) -> float:
    """For ``size`` bytes, where ``footprint`` were touched since their last use."""
    target = plan.target
    if footprint <= target.l1_bytes:
        return 0.0
    if footprint > target.l2_bytes:
        return machine.stream_cycles(target, size, footprint)
    crowded = 1 + footprint / target.l2_bytes
    return size / target.line_bytes * target.l2_cycles * (1 - HIDDEN) * crowded
