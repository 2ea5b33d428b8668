"""What a config of the depthwise convolution should take."""

from __future__ import annotations

import math

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.float.depthwise.plan import ROWS, Plan
from kernels.float.plan import ConvPlan
from kernels.layout import NHWC, PLAIN
from kernels.workload.base import Conv2d

FINISH_CYCLES = 0.5
BLOCK_CYCLES = 6.0
LOOP_CYCLES = 6.0
"""A vector's epilogue; a block's addresses and loop control; a turn of a loop over few taps."""
L1_WAYS = 8
SCATTERED_MISSES = 8
"""What most first caches have, and how many lines that lie apart a core loads at once."""


def cycles(plan: Plan) -> float:
    """Arithmetic and loads of every register block, and the stream of inputs and outputs."""
    conv = plan.conv
    total = work(plan)
    if plan.layouts == PLAIN:
        total += machine.move_cycles(plan.target) * (conv.in_h * conv.in_w + conv.out_h * conv.out_w)
    total *= conv.n * plan.groups * plan.knobs.vectors
    if plan.layouts.data == NHWC:
        total += scattered_cycles(plan)
    shared = conv.out_h if plan.knobs.split == ROWS else conv.n * plan.groups
    return streamed(plan, total, shared)


def work(plan: Plan) -> float:
    """Arithmetic and loads of every register block of a vector of channels of one image."""
    conv, total = plan.conv, 0.0
    for block in plan.blocks:
        reach = min(conv.kw, conv.stride[1]) * (block.windows - 1) + conv.kw
        loads = conv.kh * (reach + conv.kw) / plan.target.loads_per_cycle
        turn = max(block.windows * conv.taps / plan.target.fmas_per_cycle, loads)
        total += block.count * (
            turn + block.windows * (FINISH_CYCLES + machine.store_cycles(plan.target)) + BLOCK_CYCLES
        )
    return total * conv.out_h


def scattered_cycles(plan: Plan) -> float:
    """What loading the input costs in NHWC beyond a stream, as pixels lie apart.

    If they do so by a multiple of a power of two, the pixels of a block share few sets of the first cache,
    and what else their lines hold is used only after they have left.
    """
    conv, target, line = plan.conv, plan.target, plan.target.line_bytes
    apart = math.gcd(4 * conv.in_c, target.l1_bytes // L1_WAYS)
    pixels = conv.kh * ((plan.knobs.columns - 1) * conv.stride[1] + conv.kw)
    passes = 1.0
    if plan.knobs.strip == 1 or pixels * max(line, apart) > target.l1_bytes / 2:
        passes *= max(1.0, line / (4 * plan.width))
    if plan.knobs.strip == 1:
        passes += 1  # no line follows the one before
    lines = 4 * math.prod(conv.data_shape) / line
    return passes * lines * target.l2_cycles / SCATTERED_MISSES


def streamed(plan: ConvPlan, cycles: float, shared: int) -> float:
    """``cycles`` of work beside the stream of the input and the output.

    Threads share out ``shared`` equal parts of both.
    """
    stream = machine.stream_cycles(plan.target, _moved(plan.conv), _moved(plan.conv))
    return machine.overlapped(cycles, stream) * ceil_div(shared, plan.threads) / shared


def _moved(conv: Conv2d) -> float:
    """Bytes of the input, and of the output twice: its lines are loaded before they are written."""
    return 4.0 * (math.prod(conv.data_shape) + 2 * math.prod(conv.out_shape))
