"""What a config of the quantized depthwise convolution on Arm should take."""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.emit import machine
from kernels.int8.arm.depthwise.plan import ALONG, NONE, TOGETHER, TOUCH, Plan
from kernels.int8.arm.finish import finish_cycles

UNFETCHED = 3.0
"""How much longer lines from memory take that no prefetcher sees coming."""
SCATTERED = 0.4
"""How much longer lines take for each window more that is walked along with the first."""
CROWDED = 2.0
"""How much longer lines take where the rows that are used again hardly fit a cache of few ways."""
FIRST_LINE = 1.5
"""How much longer the first line of a run takes than the others."""


def work(plan: Plan) -> float:
    """Instructions of the tiles."""
    conv, target, knobs = plan.conv, plan.target, plan.knobs
    # Of eight channels; some products are added to 32 bits together.
    taps, together = conv.taps, TOGETHER[knobs.multiply]
    products = 1.5 * taps if together == 1 else taps / 2 + 1.5 * ceil_div(taps, together)
    loads = _loads(plan)
    vectors = (products + 2 * finish_cycles(knobs.requant, target)) / target.fmas_per_cycle
    each = max(vectors, loads / target.loads_per_cycle) + machine.CALL_CYCLES / 2 / knobs.tile
    windows = conv.n * conv.windows
    total = float(windows * conv.in_c) / plan.lanes * each
    return total + windows / knobs.tile * conv.in_c / knobs.chunk * 2 * machine.CALL_CYCLES


def _loads(plan: Plan) -> float:
    """Vectors that a window loads, of weights and of data."""
    conv, tile = plan.conv, plan.knobs.tile
    columns = (tile - 1) * conv.stride[1] + (conv.kw - 1) * conv.dilation[1] + 1
    return (conv.taps + conv.kh * min(columns, tile * conv.kw)) / tile


def cycles(plan: Plan) -> float:
    """Instructions of tiles and copies, and what leaves L1 between copy and use."""
    conv, target, knobs = plan.conv, plan.target, plan.knobs
    size = 2 if plan.packed_dtype == "int16" else 1
    results = float(conv.n * conv.windows * conv.in_c)
    total = work(plan)
    if not plan.staged and plan.packed_dtype != conv.data_dtype:
        total += results / plan.lanes * _loads(plan) / 2
    copied = conv.n * plan.bands * plan.rows * plan.columns * conv.in_c * size if plan.staged else 0
    total += copied / 16 * 1.5 * machine.move_cycles(target)
    # The rows of a chunk are used again by the windows of the next row.
    near = (conv.kh * plan.columns + conv.out_w) * knobs.chunk * size
    total += machine.stream_cycles(target, results * conv.kh * size, 2.0 * near)
    touched = results + conv.n * conv.in_h * conv.in_w * conv.in_c
    footprint = plan.rows * plan.columns * knobs.chunk * size
    between = footprint * (2.0 if footprint <= target.l1_bytes / 2 else 5.0)
    total += (1 + UNFETCHED) * machine.stream_cycles(target, copied, between)  # written, then walked
    # Lines at the edges of chunks are fetched for both.
    split = ceil_div(knobs.chunk, target.line_bytes) * target.line_bytes / knobs.chunk
    # A copy goes row by row, as prefetchers like it; windows walk through several rows at once.
    walk = UNFETCHED if knobs.stage == NONE and touched > target.l2_bytes else 1.0
    if knobs.stage == TOUCH:
        total += results * conv.kh * conv.stride[1] / target.line_bytes / target.loads_per_cycle
    else:
        walk *= 1 + SCATTERED * (knobs.tile - 1)
    if knobs.chunk < conv.in_c:
        # Runs of a chunk are short, and a prefetcher sees none of their first lines.
        walk += FIRST_LINE * target.line_bytes / knobs.chunk
    if not plan.staged:
        # Edges apart fetch their lines again; along, rows of input and output may push each other out.
        apart = 1 + (conv.out_w - len(plan.inside[1])) / conv.out_w
        crowded = conv.kh * conv.in_w * conv.in_c > target.l1_bytes / 2
        walk *= (CROWDED if crowded else 1.0) if knobs.edges == ALONG else apart
    return total + split * walk * machine.stream_cycles(target, touched, target.l1_bytes + touched)
