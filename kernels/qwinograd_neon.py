"""Exact Winograd convolution of 8-bit integers on Arm, along one axis, in int16 and int32."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import code_shape, machine, qtir
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qfinish import Finish, finish_cycles
from kernels.qkernel import qconv_of
from kernels.qneon import NeonKernel, ways, why_not_neon
from kernels.qpoints import PAIRS, Points
from kernels.qwinograd_neon_nest import Nest
from kernels.qwinograd_neon_plan import LANES, Plan, axis_of
from kernels.qworkload import LIMITS, QConv2d
from kernels.space import Config, Knobs, Space
from kernels.target import Target, is_arm32
from kernels.workload import Workload

MOST_TAPS = 7
INT16 = (1 << 15) - 1
LOW_BLOCK = 0.7
"""What a block saves of a step for each of its tiles that are missing."""


class QuantizedWinogradNeon(NeonKernel):
    """Tiles of F(m, r) (``kernels/qpoints.py``) along rows of the data, or along columns for filters one
    column wide: what the other axis has of taps is summed up at the points, so it may have any number.

    Products are those of ``lane`` blocks (``kernels/qblocks.py``). Knobs: ``points`` of the algorithm, for
    groups of ``taps``; ``rows`` x ``columns`` is the block, in tiles and filters; ``band`` lines are
    transformed at a time; a ``slab`` of blocks of tiles meets all filters before the next, and all points of
    ``filters`` filters come before the next filters; ``requant`` is how sums are scaled.
    """

    name = "qwinograd_neon"
    version = 1

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """At least three taps along the axis, no stride, dilation or groups, numbers that fit, and no
        instructions for dot products."""
        if not isinstance(workload, QConv2d):
            return "not a quantized convolution"
        if workload.groups > 1 or max(*workload.stride, *workload.dilation) > 1:
            return "needs stride, dilation and groups of 1"
        taps = (workload.kh, workload.kw)[axis_of(workload)]
        if not 3 <= taps <= MOST_TAPS:
            return f"needs 3 to {MOST_TAPS} taps along an axis"
        if not _choices(workload):
            return "its numbers do not fit 16 and 32 bits"
        if target.has("dotprod"):
            return "an instruction for dot products does four times as many, which is more than is saved"
        return why_not_neon(target)

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """The algorithms whose numbers fit, blocks of up to 8x8, and parts of image and filters."""
        conv = qconv_of(workload)
        choices = _choices(conv)
        lines = (conv.out_w, conv.out_h)[axis_of(conv)]
        bands = {-(-lines // parts) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)}
        columns = min(LANES, conv.out_c)

        def invalid(point: Knobs) -> str | None:
            if (point["points"], point["taps"]) not in choices:
                return "the algorithm's numbers do not fit, or its taps are not the filter's"
            if not axis_of(conv) and point["band"] != lines:
                return "bands are of rows"
            plan = Plan.of(conv, point, target)
            if plan.block.accumulators + 1 >= target.vector_registers:
                return f"{plan.block.accumulators} sums spill"
            return None

        return Space(
            self.name,
            {
                "points": sorted({points for points, _ in choices}),
                "taps": sorted({taps for _, taps in choices}),
                "rows": [3, 4, 6, 7, 8] if not is_arm32(target) else [2, 3, 4],
                "columns": [columns],
                "band": sorted(bands),
                "slab": [1, 2, 4, 8],
                "filters": sorted({conv.out_c, *(c for c in (32, 64, 96, 128) if conv.out_c % c == 0)}),
                "requant": ways(conv, target),
            },
            invalid,
        )

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Products, transforms, and what does not stay near between them."""
        conv = qconv_of(workload)
        plan = Plan.of(conv, dict(config.knobs), target)
        points, count = plan.points, plan.points.count
        vector = 1 / target.fmas_per_cycle
        blocks = float(-(-plan.windows // plan.block.rows))
        step = max(plan.block.cycles * vector, (plan.block.rows + 8) / target.loads_per_cycle)
        if plan.windows % plan.block.rows:  # the last block is lower, and loads as many filters
            blocks -= LOW_BLOCK * (1 - plan.windows % plan.block.rows / plan.block.rows)
        panels = plan.passes * plan.width / plan.block.panel
        each = plan.taps * (plan.steps * step + machine.CALL_CYCLES / 4) + machine.CALL_CYCLES
        each += plan.block.accumulators * machine.MOVE_CYCLES
        cycles = count * blocks * panels * each
        forward = plan.groups * plan.cells * plan.channels / LANES
        cycles += forward * count * (machine.MOVE_CYCLES + 4 * vector)
        back = count + points.results * (count / 2 + 2 + finish_cycles(str(config["requant"]), target))
        cycles += plan.windows * plan.passes * plan.width / 4 * back * vector
        weights, data, sums = 2 * plan.packed, 2 * plan.transformed, 4 * count * plan.sums
        slab = 2 * plan.slab * plan.block.rows * plan.depth
        panel = 2 * plan.block.panel * plan.depth
        near = weights / plan.passes / count
        slabs = -(-plan.windows // (plan.block.rows * plan.slab))
        whole = weights + data + sums + 2 * plan.copy.elements
        whole += (conv.in_h * conv.in_w * conv.in_c + conv.out_h * conv.out_w * conv.out_c) // plan.bands
        cycles += machine.stream_cycles(target, weights + data, whole)
        cycles += (slabs - 1) * machine.stream_cycles(target, weights, slab + near)
        cycles += (panels - 1) * count * slabs * machine.stream_cycles(target, slab, 2.0 * (slab + panel))
        cycles += plan.passes * machine.stream_cycles(target, data + 2 * sums, data + sums + near)
        return machine.seconds(conv.n * plan.bands * cycles + machine.cold_cycles(target, weights) / 2)

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """The filters at all points, as ``Plan.pack`` orders them."""
        return Plan.of(conv, dict(config.knobs), target).pack(weights)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Transform, products at each point, and the way back with the requantization."""
        conv = qconv_of(workload)
        plan = Plan.of(conv, dict(config.knobs), target)
        filters = self.padded_filters(conv, config, target)
        function = qtir.QFunction(conv, name, plan.packed, "int16", filters)
        with function as args, code_shape.linked():
            Nest(plan, args, Finish(args, str(config["requant"]), is_arm32(target))).run(threads)
        return function.result()


def _choices(conv: QConv2d) -> list[tuple[int, int]]:
    """(points, taps of a group) for which all numbers fit: transformed ones int16, and sums int32 less what
    the way back loses."""
    along = axis_of(conv)
    taps = (conv.kh, conv.kw)[along]
    data, weight = max(map(abs, LIMITS[conv.data_dtype])), max(map(abs, conv.centered_range))
    total = conv.kh * conv.kw * conv.in_c * data * weight
    found = []
    for count in PAIRS:
        for part in sorted({-(-taps // groups) for groups in range(1, 4)}):
            points = Points(count, part)
            if part < 2 or points.results < 2:
                continue
            largest = max(
                data * int(np.abs(points.data).sum(axis=1).max()),
                weight * int(np.abs(points.filters).sum(axis=1).max()),
            )
            if largest <= INT16 and total << points.loss < 1 << 31:
                found.append((count, part))
    return found
