"""What a config of the direct quantized convolution should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.int8.x86.direct.plan import BANDS, WEIGHT_STATIONARY, Plan
from kernels.int8.x86.instructions import FORK_CYCLES, WAYS

FINISH_CYCLES, FINISH_FOUR_CYCLES = 6.0, 5.0
"""Requantizing and storing one vector of sums, beside another and with three more windows."""
COPY_CYCLES = 1.5
"""Copying one vector of the input."""


def cycles(plan: Plan) -> float:
    """Multiplications, requantization and copy, or the traffic of weights and windows."""
    conv, band, target = plan.conv, plan.band, plan.target
    windows = plan.knobs.rows * conv.out_w
    blocks = ceil_div(windows, plan.windows)
    vectors = plan.padded_filters // plan.lanes
    tiles = conv.groups * ceil_div(plan.filters // plan.lanes, plan.vectors)
    arithmetic = _depth_cycles(plan) * windows * vectors
    loads = blocks * tiles * plan.depth * (plan.windows + plan.vectors) / target.loads_per_cycle
    compute = max(arithmetic, loads) + blocks * tiles * (machine.CALL_CYCLES + 4 * plan.windows)
    compute += windows * vectors * (FINISH_FOUR_CYCLES if plan.vectors == 1 else FINISH_CYCLES)
    size = 2 if plan.way.data == "int16" else 1
    weights = plan.packed_length * (2 if plan.way.packed == "int16" else 1)
    held = band.elements * size
    copy = band.elements * size * 8 / plan.bits * COPY_CYCLES if band.copied else 0.0
    still = plan.knobs.order == WEIGHT_STATIONARY
    inner, outer, repeats = (held, weights, tiles) if still else (weights, held, blocks)
    stream = machine.stream_cycles(target, inner * repeats, inner + outer / repeats)
    cold = machine.cold_cycles(target, weights)
    again = (plan.bands - 1) * machine.stream_cycles(target, weights, weights + held)
    band_cycles = max(compute, stream)
    if plan.threads == 1:
        return cold + again + plan.bands * (copy + band_cycles)
    if plan.knobs.split == BANDS:
        shared = ceil_div(plan.bands, plan.threads) * (copy + band_cycles)
        return cold + again + shared + FORK_CYCLES
    # Each thread reads its own filters, of windows that one has copied.
    shared = ceil_div(tiles, plan.threads) * (cold + plan.bands * band_cycles) / tiles
    return again + shared + plan.bands * (copy + FORK_CYCLES)


def _depth_cycles(plan: Plan) -> float:
    """All units of a vector of weights; where sums begin in int16, as far as weights are usually small."""
    if plan.short is None:
        return plan.way.cycles * plan.depth
    fitting = min(1.0, plan.depth / plan.short.usual)
    apart = WAYS["bytes"].cycles * (2 if plan.short.wide else 1)
    each = fitting * plan.way.cycles + (1 - fitting) * apart
    return each * plan.short.steps * plan.short.parts
