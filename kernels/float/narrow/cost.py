"""What a config of a product by narrow weights should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.float.narrow.plan import Plan

UNPACK_CYCLES = {4: 0.7, 8: 0.7, 16: 0.5}
"""Making one vector of floats of packed weights, beside multiply-adds."""


def cycles(plan: Plan) -> float:
    """Unpacking and multiply-adds of all tiles, beside the weights' way from memory."""
    gemm, vectors = plan.workload, plan.knobs.vectors
    tiles = ceil_div(gemm.m, plan.rows)
    step = machine.step_cycles(plan.target, plan.rows, vectors) + vectors * UNPACK_CYCLES[gemm.bits]
    if plan.way is not None:
        # Four products a lane; for a vector of words two masks, a shift and the loads.
        parts = gemm.together // 4
        step = vectors * (1.5 + plan.rows * parts * plan.way.cycles * 2) / gemm.together
    blocks = max(1, gemm.blocks) * plan.rows * vectors * 2
    panels = ceil_div(plan.panels, plan.threads)
    compute = tiles * panels * (gemm.k * step + blocks + machine.CALL_CYCLES)
    size = sum(shape[0] for shape in plan.shapes.values()) * (2.0 if gemm.bits == 16 else 4.0)
    return machine.overlapped(compute, machine.cold_cycles(plan.target, size) / plan.threads)
