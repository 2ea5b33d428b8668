"""What a config of the quantized matrix product should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.int8.arm.blocks.block import QUAD
from kernels.int8.arm.blocks.fours import Fours
from kernels.int8.arm.blocks.pairwise import Pairwise
from kernels.int8.arm.finish import finish_cycles
from kernels.int8.arm.gemm.plan import FILTERS, Plan

SPILLED = 1.7
"""How much slower a step is whose operands do not fit the registers beside the sums."""
SMALL = 8
"""Sums that leave registers for the operands of two steps."""
MOST_UNSEEN = 3.0
"""How much longer lines take that no prefetcher sees coming."""
GATHERED = 3.0
"""How much more the transform takes an element where a step's elements are not of one tap."""


def work(plan: Plan) -> float:
    """Instructions of blocks and transform, and how far weights and windows are when they are used."""
    conv, target, block = plan.conv, plan.target, plan.block
    size = 2 if block.dtype == "int16" else 1
    step = max(block.cycles / target.fmas_per_cycle, block.loads / target.loads_per_cycle)
    if block.name == "lane" and plan.in_place:
        step += block.rows / 2 / target.fmas_per_cycle  # bytes are widened there
    if block.accumulators + block.operands > target.vector_registers:
        step *= SPILLED
    if block.name == "lane" and plan.steps == 2 and block.accumulators > SMALL:
        step *= SPILLED  # no loop is left, and LLVM loads what both steps multiply early
    each = plan.steps * step + machine.CALL_CYCLES
    if isinstance(block, Pairwise):  # reduced, and those of fours zeroed
        each += block.accumulators * (2 if isinstance(block, Fours) else 1) / target.fmas_per_cycle
    each += block.rows * ceil_div(block.columns, QUAD) * finish_cycles(plan.knobs.requant, target)
    tiles, panels = ceil_div(plan.windows, block.rows), ceil_div(conv.out_c, block.columns)
    total = tiles * panels * each
    windows = tiles * block.rows * plan.padded_depth * size
    if not plan.in_place:
        gathered = GATHERED if conv.in_c % block.unit else 1.0
        total += windows / 16 * 2 * machine.move_cycles(target) * gathered
    total += (plan.knobs.split - 1) * tiles * panels * block.accumulators * machine.move_cycles(target)
    tile, panel = block.rows * plan.padded_depth * size, block.panel * plan.padded_depth * size
    weights, split = plan.packed_length * size, plan.knobs.split
    if plan.knobs.order == FILTERS:
        total += machine.stream_cycles(target, weights, windows + weights)
        # Every panel meets all windows, and of these no prefetcher sees more than a row coming.
        total += (panels - 1) * MOST_UNSEEN * machine.stream_cycles(target, windows, 2.0 * (windows + panel))
        # A part of a panel stays in L1 from tile to tile, or not.
        total += panels * (tiles - 1) * machine.stream_cycles(target, panel, 2.0 * (panel + tile) / split)
        return total
    slab = plan.knobs.slab * tile
    total += ceil_div(tiles, plan.knobs.slab) * machine.stream_cycles(target, weights, slab + weights)
    # A cache of few ways loses some of what only just fits.
    total += (panels - 1) * machine.stream_cycles(target, windows, 2.0 * (slab + panel) / split)
    waiting = tiles * panels * block.accumulators * 16.0
    share = waiting * plan.knobs.slab / tiles
    total += 2 * (split - 1) * machine.stream_cycles(target, waiting, share + (slab + weights) / split)
    return total


def cycles(plan: Plan) -> float:
    """The work, results to memory, and cold weights."""
    conv, target = plan.conv, plan.target
    results = float(plan.windows * conv.out_c)
    unseen = 1.0
    if results > target.l2_bytes:
        # A slab's results are written panel by panel: where these are more lines than there are streams to
        # see, no prefetcher helps.
        lines = ceil_div(plan.knobs.slab * plan.block.rows * conv.out_c, target.line_bytes)
        unseen = min(MOST_UNSEEN, max(1.0, lines / target.streams))
    total = work(plan) + unseen * machine.stream_cycles(target, results, target.l1_bytes + results)
    weights = plan.packed_length * (2 if plan.block.dtype == "int16" else 1)
    return total + machine.cold_cycles(target, weights) / 2
