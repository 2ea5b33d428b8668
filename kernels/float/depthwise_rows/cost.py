"""What a config of the depthwise convolution along rows should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.float.depthwise.cost import BLOCK_CYCLES, FINISH_CYCLES, LOOP_CYCLES, streamed
from kernels.float.depthwise.plan import ROWS
from kernels.float.depthwise_rows.plan import Plan

VALUES, SHORT_LOADS = 6, 4
"""Registers for values on their way, and what each register too few costs a block in loads: of taps again, or
of sums put aside."""


def cycles(plan: Plan) -> float:
    """Arithmetic and loads of every register block, and the stream of inputs and outputs."""
    conv = plan.conv
    inner = len(conv.inner_rows)
    blocks, rest = divmod(inner, plan.knobs.rows)
    total = 0.0
    for starts, count in plan.blocks:
        whole = _block_cycles(plan, plan.knobs.rows, len(starts))
        one = _block_cycles(plan, 1, len(starts)) + conv.kh * LOOP_CYCLES
        total += count * (blocks * whole + (rest + conv.out_h - inner) * one)
    members = conv.n * conv.out_c
    shared = conv.out_h if plan.knobs.split == ROWS else members
    return streamed(plan, members * total, shared)


def _block_cycles(plan: Plan, rows: int, vectors: int) -> float:
    """One register block of ``rows`` x ``vectors`` accumulators."""
    conv = plan.conv
    lines = {i * conv.stride[0] + r * conv.dilation[0] for i in range(rows) for r in range(conv.kh)}
    # With a stride of 2, two vectors hold two taps.
    loads = len(lines) * vectors * ceil_div(conv.kw, conv.stride[1]) * conv.stride[1]
    loads += SHORT_LOADS * max(0, rows * vectors + conv.taps + VALUES - plan.target.vector_registers)
    products = rows * vectors * conv.taps
    if conv.stride[1] > 1:
        products += len(lines) * vectors * conv.kw
    work = max(products / plan.target.fmas_per_cycle, loads / plan.target.loads_per_cycle)
    return work + rows * vectors * (FINISH_CYCLES + machine.store_cycles(plan.target)) + BLOCK_CYCLES
