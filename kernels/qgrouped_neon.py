"""Quantized convolution with groups on Arm: outer products of a window's channels and fours of filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import code_shape, machine, qtir
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qblocks import QUAD
from kernels.qfinish import Finish, finish_cycles
from kernels.qgrouped_neon_nest import CHANNELS, Nest, Plan
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
    """Direct convolution of any groups by ``smlal`` with a lane, from a padded copy in 16 bits.

    Knobs: ``block`` is windows of a row x fours of filters in registers; ``rows`` of output are copied and
    worked on at a time; ``requant`` is how sums are scaled (``kernels/qneon.py``).
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

        def invalid(point: Knobs) -> str | None:
            count = conv.n * -(-conv.out_h // int(point["rows"]))
            return "fewer bands than threads" if count < min(threads, conv.n * conv.out_h) else None

        knobs: dict[str, list[int | str]] = {
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
            # smlal multiplies half a vector and takes a whole one's time, as ``qblocks`` says of lanes.
            products = taps * plan.depth * sums / 2 / target.fmas_per_cycle
            loads = taps * (-(-plan.depth // CHANNELS) * plan.windows + plan.depth * tile.quads)
            step = max(products, loads / target.loads_per_cycle)
            if sums + tile.quads + plan.windows > target.vector_registers:
                step *= SPILLED
            each = step + machine.CALL_CYCLES + sums * finish
            cycles += tile.count * conv.groups * blocks * each
        copied, weights = 2 * plan.band.elements, 2 * plan.packed
        cycles += copied / 16 * 1.5 * machine.MOVE_CYCLES
        # A tile of a group walks over the whole band, and takes of each line but its own channels.
        walks = conv.groups * sum(tile.count for tile in plan.tiles)
        pixels = plan.band.height * plan.band.columns
        touched = min(copied, pixels * max(2 * plan.depth, target.line_bytes))
        cycles += machine.stream_cycles(target, walks * touched, 2.0 * copied)
        cycles += machine.stream_cycles(target, weights, weights + copied)
        return machine.seconds(-(-bands // threads) * cycles + machine.cold_cycles(target, weights) / 2)

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """[group][tile][tap][channel][filter of the tile, filled up to fours]."""
        plan = Plan.of(conv, config)
        taps = conv.kh * conv.kw
        # (tap, channel, group, filter) to (group, tap, channel, filter)
        ordered = weights.reshape(taps, plan.depth, conv.groups, plan.filters).transpose(2, 0, 1, 3)
        parts = []
        for tile in plan.tiles:
            end = tile.first + tile.count * tile.filters
            mine = ordered[..., tile.first : end].reshape(*ordered.shape[:3], tile.count, tile.filters)
            mine = np.pad(mine, ((0, 0),) * 4 + ((0, tile.quads * QUAD - tile.filters),))
            parts.append(mine.transpose(0, 3, 1, 2, 4).reshape(conv.groups, -1))
        packed: Array = np.concatenate(parts, axis=1).astype(np.int16).reshape(-1)
        return packed

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The loop nest around the micro-kernel."""
        conv = qconv_of(workload)
        plan = Plan.of(conv, config)
        filters = self.padded_filters(conv, config, target)
        function = qtir.QFunction(conv, name, plan.packed, "int16", filters)
        with function as args, code_shape.linked():
            Nest(plan, args, Finish(args, str(config["requant"]), is_arm32(target))).run(threads)
        return function.result()
