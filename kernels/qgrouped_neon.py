"""Quantized convolution with groups on Arm: outer products of a window's channels and fours of filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import code_shape, machine, qtir
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qblocks import QUAD
from kernels.qfinish import Finish, finish_cycles
from kernels.qgemm_plan import signedness
from kernels.qgrouped_neon_nest import CHANNELS, DOT, LANE, UNIT, Nest, Plan
from kernels.qkernel import qconv_of
from kernels.qneon import NeonKernel, ways, why_not_neon
from kernels.qworkload import QConv2d
from kernels.space import Config, Knobs, Space
from kernels.target import Target, is_arm32
from kernels.workload import Workload

WINDOWS = (1, 2, 4, 6, 7, 8, 12)
BANDS = (1, 2, 4, 8, 14)
SPILLED = 1.7
"""How much slower a block is whose operands do not fit the registers beside its sums."""


class QuantizedGroupsNeon(NeonKernel):
    """Direct convolution of any groups by lanes of a window's channels, from a padded copy of the input.

    Knobs: ``multiply`` is ``lane``, words by ``smlal``, or ``dot``, four bytes by ``sdot`` or ``udot`` where
    the target has them and the weights fit. ``block`` is windows of a row x fours of filters in registers;
    ``rows`` of output are copied and worked on at a time; ``requant`` is how sums are scaled
    (``kernels/qneon.py``).
    """

    name = "qgrouped_neon"
    version = 1

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only grouped convolutions on Arm with NEON, those with one filter to each channel excepted."""
        if not isinstance(workload, QConv2d):
            return "not a quantized convolution"
        if workload.groups == 1:
            return "not grouped"
        if workload.groups == workload.in_c == workload.out_c:
            return "one filter to each channel"
        return why_not_neon(target)

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Blocks whose sums fit the registers, whole planes and parts of them."""
        conv = qconv_of(workload)
        most = -(-conv.out_c // conv.groups // QUAD)
        blocks: list[int | str] = [
            f"{windows}x{quads}"
            for quads in (1, 2, 3, 4)
            for windows in WINDOWS
            if windows <= conv.out_w and quads <= most and windows * quads + quads < target.vector_registers
        ]
        bands = [band for band in BANDS if band < conv.out_h]
        dots = target.has("dotprod") and signedness(conv) is not None

        def invalid(point: Knobs) -> str | None:
            count = conv.n * -(-conv.out_h // int(point["rows"]))
            return "fewer bands than threads" if count < min(threads, conv.n * conv.out_h) else None

        knobs: dict[str, list[int | str]] = {
            "multiply": [LANE, *[DOT] * dots],
            "block": blocks,
            "rows": [*bands, conv.out_h],
            "requant": ways(conv, target),
        }
        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Products and loads of blocks, the copy, and what leaves L1 in between."""
        conv = qconv_of(workload)
        plan = Plan.of(conv, config)
        taps = conv.kh * conv.kw
        bands = conv.n * -(-conv.out_h // plan.rows)
        blocks = plan.rows * -(-conv.out_w // plan.windows)
        finish = finish_cycles(str(config["requant"]), target)
        cycles = 0.0
        for tile in plan.tiles:
            sums = plan.windows * tile.quads
            # smlal multiplies half a vector, and both take turns with nothing but loads.
            units = plan.channels // UNIT[plan.multiply]
            products = taps * units * sums / (2 if plan.multiply == LANE else 1) / target.fmas_per_cycle
            loads = taps * (-(-plan.depth // CHANNELS[plan.multiply]) * plan.windows + units * tile.quads)
            step = max(products, loads / target.loads_per_cycle)
            if sums + tile.quads + plan.windows > target.vector_registers:
                step *= SPILLED
            each = step + machine.CALL_CYCLES + sums * finish
            cycles += tile.count * conv.groups * blocks * each
        size = 2 if plan.multiply == LANE else 1
        copied, weights = size * plan.band.elements, size * plan.packed
        cycles += copied / 16 * 1.5 * machine.MOVE_CYCLES
        # A tile of a group walks over the whole band, and takes of each line but its own channels.
        walks = conv.groups * sum(tile.count for tile in plan.tiles)
        pixels = plan.band.height * plan.band.columns
        touched = min(copied, pixels * max(size * plan.depth, target.line_bytes))
        cycles += machine.stream_cycles(target, walks * touched, 2.0 * copied)
        cycles += machine.stream_cycles(target, weights, weights + copied)
        return machine.seconds(-(-bands // threads) * cycles + machine.cold_cycles(target, weights) / 2)

    def offset(self, workload: QConv2d, config: Config) -> int:
        """128 either way where bytes are multiplied and the data's sign is not the weights'."""
        return Plan.of(workload, config).offset

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """[group][tile][tap][unit][filter of the tile, filled up to fours][channel of the unit]."""
        plan = Plan.of(conv, config)
        taps = conv.kh * conv.kw
        unit = UNIT[plan.multiply]
        # (tap, channel, group, filter) to (group, filter, tap, unit, channel of it)
        ordered = weights.reshape(taps, plan.depth, conv.groups, plan.filters).transpose(2, 3, 0, 1)
        ordered = np.pad(ordered, ((0, 0),) * 3 + ((0, plan.channels - plan.depth),))
        ordered = ordered.reshape(*ordered.shape[:3], -1, unit)
        parts = []
        for tile in plan.tiles:
            end = tile.first + tile.count * tile.filters
            mine = ordered[:, tile.first : end].reshape(conv.groups, tile.count, tile.filters, taps, -1, unit)
            mine = np.pad(mine, ((0, 0), (0, 0), (0, tile.quads * QUAD - tile.filters), *((0, 0),) * 3))
            parts.append(mine.transpose(0, 1, 3, 4, 2, 5).reshape(conv.groups, -1))
        packed: Array = np.concatenate(parts, axis=1).astype(plan.dtype).reshape(-1)
        return packed

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The loop nest around the micro-kernel."""
        conv = qconv_of(workload)
        plan = Plan.of(conv, config)
        filters = self.padded_filters(conv, config, target)
        function = qtir.QFunction(conv, name, plan.packed, plan.dtype, filters)
        with function as args, code_shape.linked():
            Nest(plan, args, Finish(args, str(config["requant"]), is_arm32(target))).run(threads)
        return function.result()
