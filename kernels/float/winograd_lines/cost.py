"""What a config of Winograd along lines should take."""

from __future__ import annotations

from kernels.float.winograd.cost import TURN_IN_CYCLES, TURN_OUT_CYCLES, until_done
from kernels.float.winograd_lines.plan import Plan
from kernels.layout import NCHW

FORWARD_CYCLES, BACKWARD_CYCLES = (0.4, 0.2), (0.4, 0.2)
"""Cycles for each vector of a transformed tile: so many, and so many for each element of a tile."""


def cycles(plan: Plan) -> float:
    """All blocks, until the last thread is done."""
    vectors = plan.tiles * plan.points
    (fixed_in, each_in), (fixed_out, each_out) = FORWARD_CYCLES, BACKWARD_CYCLES
    forward = vectors * (fixed_in + each_in * plan.tile)
    backward = vectors * (fixed_out + each_out * plan.tile)
    if plan.layouts.data == NCHW:
        forward += TURN_IN_CYCLES * plan.in_run * (1 if plan.whole else plan.tile)
    if plan.layouts.out == NCHW:
        backward += TURN_OUT_CYCLES * plan.tiles * plan.knobs.m
    return until_done(plan, plan.in_vectors * forward + plan.out_vectors * backward, plan.knobs.split)
