"""Depthwise quantized convolution on x86 by vpmaddubsw: bytes are multiplied where they lie, padding is code.

Products are added in int16, as many taps as fit once the middle of their range is subtracted, and then in
pairs into int32. That needs weights of 8 bits at most; with 7 bits two taps go at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernels import machine, requantize
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qconstants import check_scale, folded_bias
from kernels.qdepthwise_bytes_nest import Nest
from kernels.qdepthwise_bytes_plan import BAND, CHANNELS, NONE, PIXELS, ROWS, Plan
from kernels.qdepthwise_x86 import why_not_depthwise
from kernels.qkernel import QuantizedKernel, qconv_of
from kernels.qtir import QFunction
from kernels.qworkload import QConv2d
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Workload

UNROLLED = 400
"""Most products in the code that are worth compiling."""
PRODUCT_CYCLES, FINISH_CYCLES, COPY_CYCLES = 1.3, 15.0, 1.8
"""A product for a vector; adding up, requantizing and storing one; copying one of the input."""
BLOCK_CYCLES, SHARED_CYCLES = 8.0, 1.0
"""Of a block of windows: its addresses and constants; a product's weights, and data it alone interleaves."""


class QuantizedDepthwiseBytes(QuantizedKernel):
    """One filter a channel, computed directly on bytes.

    Knobs: with ``stage`` ``none`` windows are read where they lie, and those that reach into the padding have
    code of their own; with ``band`` from a padded copy. ``windows`` of a row are in registers at a time;
    ``rows`` of output a band; ``order`` is what the outer loop is over within a band: vectors of
    ``channels``, ``rows``, or rows and then blocks of windows (``pixels``). ``requant`` is how sums are
    scaled.
    """

    name = "qdepthwise_bytes"
    version = 2

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Depthwise convolutions with one filter a channel, whose weights fit int8 without their zero."""
        reason = why_not_depthwise(workload, target)
        if reason is not None:
            return reason
        low, high = qconv_of(workload).centered_range
        return None if -128 <= low <= high <= 127 else f"weights from {low} to {high} do not fit int8"

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """One to four windows, whole planes and bands, all orders."""
        conv = qconv_of(workload)
        narrow = conv.out_c < target.vector_bits // 16
        knobs: dict[str, list[int | str]] = {
            "stage": [BAND] if narrow else [NONE, BAND],
            "windows": [count for count in (1, 2, 3, 4) if count <= conv.out_w],
            "rows": sorted({-(-conv.out_h // min(count, conv.out_h)) for count in (1, 2, 4, 7, 14, 28, 56)}),
            "order": [CHANNELS, ROWS, PIXELS],
            "requant": requantize.choices(conv, target),
        }

        def invalid(point: Knobs) -> str | None:
            bands = conv.n * -(-conv.out_h // int(point["rows"]))
            if bands < min(threads, conv.n * conv.out_h):
                return "fewer bands than threads"
            if point["stage"] == NONE and threads == 1 and point["rows"] != conv.out_h:
                return "bands are of copied rows"
            unrolled = Plan.of(conv, point, target).unrolled
            too_many = unrolled > UNROLLED and point["stage"] == NONE
            return f"{unrolled} unrolled products are too many" if too_many else None

        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Arithmetic and copy, and what leaves L1 before its next use: rows, constants, halves of lines."""
        plan = Plan.of(qconv_of(workload), dict(config.knobs), target)
        conv, products = plan.conv, len(plan.products)
        bands = conv.n * -(-conv.out_h // plan.rows)
        each = products * PRODUCT_CYCLES + FINISH_CYCLES
        # Rows at the edges have small blocks.
        inside = len(plan.inside[0]) / conv.out_h
        blocks = inside / plan.windows + (1 - inside) / plan.parts[-1].windows
        each += (products * SHARED_CYCLES + BLOCK_CYCLES) * blocks
        windows = plan.rows * conv.out_w
        each += machine.CALL_CYCLES / windows  # so that bands are as large as they can be
        cycles = windows * each * sum(part.count / part.windows for part in plan.parts)
        if plan.staged:
            cycles += plan.band.elements / plan.lanes * COPY_CYCLES
        pitch, constants = plan.pitch, 2 * plan.vectors * (plan.packed + 6 * plan.lanes * plan.kinds)
        data = plan.rows * conv.stride[0] * pitch
        used = windows * conv.kh * conv.in_c
        if plan.order == PIXELS:
            held = conv.kh * pitch + conv.out_w * conv.out_c + constants
            near = conv.kh * conv.in_c * plan.windows * conv.stride[1] + constants
            cycles += machine.stream_cycles(target, windows / plan.windows * constants, near)
        else:  # a line comes again for the next of its vectors
            again = max(1, target.line_bytes // plan.lanes)
            row = conv.kh * conv.in_w * target.line_bytes
            held = row if plan.order == CHANNELS else conv.kh * pitch + conv.out_w * conv.out_c + constants
            data, used = (data * again, used) if plan.order == CHANNELS else (data, used * again)
        cycles += machine.stream_cycles(target, data, 2 * data)
        cycles += machine.stream_cycles(target, used, held)
        return machine.seconds(bands * cycles / min(threads, bands))

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """Sums are exact; some ways to scale them are not."""
        return requantize.why_inexact(str(config["requant"]))

    def offset(self, workload: QConv2d, config: Config) -> int:
        """128 where int8 data are multiplied as uint8."""
        return 128 if workload.data_dtype == "int8" else 0

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """``Plan.pack``."""
        return Plan.of(conv, dict(config.knobs), target).pack(weights.reshape(conv.kh, conv.kw, conv.out_c))

    def constants(
        self, workload: Workload, config: Config, target: Target, inputs: Sequence[Array]
    ) -> list[Array]:
        """Packed weights; bias, multiplier and shift of every lane.

        The bias takes the middles of the groups of taps back.
        """
        conv = qconv_of(workload)
        plan = Plan.of(conv, dict(config.knobs), target)
        weights, bias, *scale = inputs[1:]
        packed = self.pack(conv, config, target, weights)
        taps = weights.reshape(conv.kh, conv.kw, conv.out_c).astype(np.int32) - conv.weight_zero
        folded = folded_bias(conv, weights, bias, plan.offset)
        # In the middle of what sums can be, so it fits as they do.
        filled = plan.fill(folded + plan.middles(taps).sum(0).astype(np.int32))
        if not scale:
            return [packed, filled.reshape(-1)]
        check_scale(conv, *scale)
        scales = plan.scales(*(np.broadcast_to(each, conv.out_c) for each in scale))
        return [packed, *(each.reshape(-1) for each in (filled, *scales))]

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Bands, rows, vectors of channels and blocks of windows around the taps."""
        plan = Plan.of(qconv_of(workload), dict(config.knobs), target)
        filters = plan.vectors * plan.lanes * plan.kinds
        every = replace(plan.conv, per_channel=True)  # so the constants are
        function = QFunction(every, name, plan.vectors * plan.packed, "int16", filters)
        with function as args:
            Nest(plan, args).emit(threads)
        return function.result()
