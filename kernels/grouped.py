"""Direct grouped convolution, vectorised over output columns.

Each group's planes are used where they lie, copied only where padding or stride force it, one group at a time
so that the copy stays in cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernels import machine, tir
from kernels.grouped_nest import FILTERS, GROUPS, Nest, Plan, even
from kernels.kernel import Array, Kernel, conv_of
from kernels.layout import PLAIN, Layouts
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Conv2d, Workload

STORE_CYCLES = 1.0
CALL_CYCLES = 3
"""Starting one register block: addresses and loop control, mostly overlapped with the one before."""


class Grouped(Kernel):
    """Convolution of several groups of channels.

    Knobs: ``filters`` x ``rows`` x ``vectors`` of the output are one register block; ``flat`` treats a whole
    plane as one long row, which wastes fewer lanes on narrow planes and costs a copy of the output. With
    threads ``split`` says whether they share out groups or filters.
    """

    name = "grouped"
    version = 3

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only float32 convolutions of more than one group, of more than one filter or channel each."""
        if not isinstance(workload, Conv2d):
            return "computes convolutions"
        if workload.dtype != "float32":
            return f"computes float32, not {workload.dtype}"
        if workload.groups == 1:
            return "needs more than one group"
        return "is depthwise" if workload.groups == workload.in_c == workload.out_c else None

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Register blocks that fit the registers, in rows or flat."""
        conv = conv_of(workload)
        limit, lanes = target.vector_registers - 4, target.lanes()
        depth = conv.out_c // conv.groups
        across = -(-conv.out_w // lanes)
        # Rows of output lie a stride apart in the copy: only with a stride of one is a plane one long row.
        can_flatten = conv.stride[0] == 1 and conv.out_h > 1 and conv.out_w % lanes

        def invalid(point: Knobs) -> str | None:
            filters, rows, vectors, flat = (int(point[k]) for k in ("filters", "rows", "vectors", "flat"))
            if filters * rows * vectors > limit:
                return f"{filters}x{rows}x{vectors} accumulators spill: {target.name} holds {limit}"
            if min(filters, rows, vectors) > 1 and filters * rows * vectors > target.vector_registers // 2:
                return f"{filters}x{rows}x{vectors} accumulators leave no registers for the operands"
            if flat and rows > 1:
                return "the flat form has one row"
            if not flat and vectors > across:
                return f"a row has {across} vectors"
            return None

        knobs: dict[str, list[int | str]] = {
            "filters": sorted({min(filters, depth) for filters in (1, 2, 4, 6)}),
            "rows": [rows for rows in (1, 2, 3, 4, 6) if rows <= conv.out_h],
            "vectors": [1, 2, 3, 4],
            "flat": [0, 1] if can_flatten else [0],
        }
        if threads > 1:
            knobs["split"] = [GROUPS, FILTERS]
        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Multiply-adds, loads and stores of every register block, and the copies.

        The costs add up: blocks are so short that what one waits for is seldom hidden by another.
        """
        conv = conv_of(workload)
        plan = Plan.of(conv, config, target)
        group, layout = plan.group, plan.layout
        cycles = layout.copy_cycles
        for filters, filter_blocks in even(group.out_c, plan.filters):
            for rows, row_blocks in even(plan.lines, plan.rows):
                for vectors, strips in plan.strips:
                    step = _step_cycles(plan, filters, rows, vectors, target)
                    ends = CALL_CYCLES + filters * rows * vectors * STORE_CYCLES
                    cycles += filter_blocks * row_blocks * strips * (group.in_c * step + ends)
        if plan.flat:
            cycles += group.out_c * group.out_h * (3 * -(-group.out_w // plan.lanes) + 3)
        total = conv.n * conv.groups * cycles
        weights = machine.cold_cycles(target, 4.0 * conv.out_c * group.in_c * plan.taps)
        shared, again = conv.n * conv.groups, 0.0
        if plan.split == FILTERS:
            # Every thread copies the whole input for itself.
            shared, again = plan.filter_blocks, shared * layout.copy_cycles
        share = -(-shared // threads) / shared
        return machine.seconds(machine.overlapped(total, weights) * share + again * (1 - share))

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """[group][block of filters][channel][tap][filter of the block]."""
        conv = conv_of(workload)
        plan = Plan.of(conv, config, target)
        grouped = weights.reshape(conv.groups, plan.group.out_c, plan.group.in_c, plan.taps)
        parts, first = [], 0
        for filters, blocks in even(plan.group.out_c, plan.filters):
            part = grouped[:, first : first + filters * blocks]
            part = part.reshape(conv.groups, blocks, filters, plan.group.in_c, plan.taps)
            parts.append(part.transpose(0, 1, 3, 4, 2).reshape(conv.groups, -1))
            first += filters * blocks
        return np.ascontiguousarray(np.concatenate(parts, axis=1)).reshape(-1)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """A loop over groups: copy its planes if need be, then every register block of its output."""
        conv = conv_of(workload)
        plan = Plan.of(conv, config, target)
        function = tir.Function(workload, name, conv.out_c * plan.group.in_c * plan.taps)
        with function as args:
            Nest(plan, args, threads).run()
        return function.result()


def _step_cycles(plan: Plan, filters: int, rows: int, vectors: int, target: Target) -> float:
    """One register block's work for one input channel."""
    layout, group = plan.layout, plan.group
    accumulators = filters * rows * vectors
    if filters > 1:
        values, weights = rows * vectors * plan.taps, filters * plan.taps
    else:
        lines = {i * layout.row_pitch + r * layout.tap_pitch for i in range(rows) for r in range(group.kh)}
        values = len(lines) * group.kw * vectors
        # Few accumulators leave room for the weights, which then stay from block to block.
        stay = group.in_c == 1 and accumulators + plan.taps + 3 <= target.vector_registers
        weights = 0 if stay else rows * plan.taps
    chain = plan.taps * machine.FMA_LATENCY / 2
    return max(accumulators * plan.taps / target.fmas_per_cycle, chain) + values / 3 + weights / 2
