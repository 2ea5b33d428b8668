"""What a config of an attention should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.float.attention.plan import Plan

SOFTMAX_CYCLES = 16
"""A vector of scores: scaled, masked, compared, its exponentials, and their sum."""


def cycles(plan: Plan) -> float:
    """Both products and the Softmax of all groups; each block of rows meets all keys and values again."""
    what, target = plan.workload, plan.target
    rows = what.rows * plan.shared
    softmax = rows * plan.pitch / plan.lanes * SOFTMAX_CYCLES
    others = 4.0 * what.count * (what.depth + what.width)
    scores = 4.0 * plan.block * plan.pitch
    blocks = plan.shared * ceil_div(what.rows, plan.block)
    again = (blocks - 1) * machine.stream_cycles(target, others, others + scores)
    # Scores are written by one product, read and written by the Softmax, and read by the other.
    moved = 3 * blocks * machine.stream_cycles(target, scores, scores)
    return plan.groups * (plan.scores.cycles + plan.mixed.cycles + softmax + again + moved) / plan.parts
