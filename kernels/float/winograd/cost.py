"""What a Winograd config should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.float.winograd.plan import TILES, Plan
from kernels.float.winograd.products_plan import ProductsPlan
from kernels.layout import NCHW

FORWARD_CYCLES, BACKWARD_CYCLES = (0.4, 0.35), (0.05, 0.34)
"""Cycles for each vector of a transformed tile: so many, and so many for each element of a tile's side."""
TURN_IN_CYCLES, TURN_OUT_CYCLES = 2.5, 1.5
"""Cycles for each vector that is turned from rows to channels or back, where a layout is NCHW."""
LARGE_FACTOR = 2.0
"""What weights from memory take over what ``machine.cold_cycles`` says when no cache holds all of them."""
MEETING_CYCLES = 30000
"""Threads that start together and wait for the last: an estimate, from one run on a busy machine."""


def cycles(plan: Plan) -> float:
    """All blocks, the first with weights from memory; until the last thread is done."""
    return until_done(plan, _forward(plan) + _backward(plan), plan.knobs.split)


def until_done(plan: ProductsPlan, transforms: float, split: str) -> float:
    """All blocks, whose ``transforms`` take so many cycles, with memory and with what threads wait."""
    target, threads = plan.target, plan.threads
    transformed = 4.0 * plan.points * (plan.in_pitch + plan.out_pitch)
    weights = 4.0 * plan.packed_length
    outer, inner = (threads, 1) if split == TILES else (1, threads)
    blocks = ceil_div(plan.blocks, outer)
    transforms += machine.stream_cycles(target, 2 * transformed, transformed)
    products = _products(plan)
    # Each thread meets all weights, or its part of them.
    cold = machine.cold_cycles(target, weights)
    if weights > max(target.l2_bytes, target.l3_bytes):
        cold *= LARGE_FACTOR
    first = machine.overlapped(products, cold)
    later = machine.overlapped(products, machine.stream_cycles(target, weights, weights + transformed))
    whole = (first + (blocks - 1) * later + blocks * transforms) / inner
    return whole + (3 * blocks * MEETING_CYCLES if inner > 1 else 0)


def _forward(plan: Plan) -> float:
    fixed, each = FORWARD_CYCLES
    turned = plan.in_rows * plan.in_columns if plan.layouts.data == NCHW else 0
    vectors, side = plan.tiles * plan.points, (plan.tile_rows + plan.tile_columns) / 2
    return plan.in_vectors * (turned * TURN_IN_CYCLES + vectors * (fixed + each * side))


def _backward(plan: Plan) -> float:
    fixed, each = BACKWARD_CYCLES
    turned = plan.tiles * plan.knobs.m * plan.knobs.m if plan.layouts.out == NCHW else 0
    vectors, side = plan.tiles * plan.points, (plan.tile_rows + plan.tile_columns) / 2
    return plan.out_vectors * (turned * TURN_OUT_CYCLES + vectors * (fixed + each * side))


def _products(plan: ProductsPlan) -> float:
    """Arithmetic and what surrounds it, of one block with all it needs in L2."""
    target = plan.target
    chunks = ceil_div(plan.conv.in_c, plan.chunk)
    panel = 0.0
    for rows, groups in ((plan.rows, plan.tiles // plan.rows), (plan.tiles % plan.rows, 1)):
        if rows:
            call = chunks * (machine.CALL_CYCLES + rows * plan.vectors * machine.move_cycles(target))
            panel += groups * (plan.conv.in_c * plan.step_cycles(rows) + call)
    tiles = 4.0 * plan.at(plan.in_vectors, 0)
    panel += machine.stream_cycles(target, tiles, tiles + 4.0 * plan.chunk * plan.width)
    return plan.points * plan.panels * panel + plan.turning_cycles
