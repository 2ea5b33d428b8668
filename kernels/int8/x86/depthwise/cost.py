"""What a config of the depthwise convolution of bytes should take."""

from __future__ import annotations

from kernels.emit import machine
from kernels.int8.x86.depthwise.plan import CHANNELS, PIXELS, Plan

PRODUCT_CYCLES, FINISH_CYCLES, COPY_CYCLES = 1.3, 15.0, 1.8
"""A product for a vector; adding up, requantizing and storing one; copying one of the input."""
BLOCK_CYCLES, SHARED_CYCLES = 8.0, 1.0
"""Of a block of windows: its addresses and constants; a product's weights, and data it alone interleaves."""


def cycles(plan: Plan) -> float:
    """Arithmetic and copy, and what leaves L1 before its next use: rows, constants, halves of lines."""
    conv, target, knobs = plan.conv, plan.target, plan.knobs
    products, parts = len(plan.taps.products), plan.channels.parts
    each = products * PRODUCT_CYCLES + FINISH_CYCLES
    # Rows at the edges have small blocks.
    inside = len(plan.inner[0]) / conv.out_h
    blocks = inside / knobs.windows + (1 - inside) / parts[-1].windows
    each += (products * SHARED_CYCLES + BLOCK_CYCLES) * blocks
    windows = knobs.rows * conv.out_w
    each += machine.CALL_CYCLES / windows  # so that bands are as large as they can be
    total = windows * each * sum(part.count / part.windows for part in parts)
    if plan.staged:
        total += plan.band.elements / plan.lanes * COPY_CYCLES
    vector = plan.packed_vector + 6 * plan.lanes * plan.kinds
    pitch, constants = plan.pitch, 2 * plan.channels.vectors * vector
    data = knobs.rows * conv.stride[0] * pitch
    used = windows * conv.kh * conv.in_c
    if knobs.order == PIXELS:
        held = conv.kh * pitch + conv.out_w * conv.out_c + constants
        near = conv.kh * conv.in_c * knobs.windows * conv.stride[1] + constants
        total += machine.stream_cycles(target, windows / knobs.windows * constants, near)
    else:  # a line comes again for the next of its vectors
        again = max(1, target.line_bytes // plan.lanes)
        row = conv.kh * conv.in_w * target.line_bytes
        held = row if knobs.order == CHANNELS else conv.kh * pitch + conv.out_w * conv.out_c + constants
        data, used = (data * again, used) if knobs.order == CHANNELS else (data, used * again)
    total += machine.stream_cycles(target, data, 2 * data)
    total += machine.stream_cycles(target, used, held)
    return plan.bands * total / min(plan.threads, plan.bands)
