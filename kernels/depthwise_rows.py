"""Depthwise convolution in NCHW, vectorised over columns and without a copy (seed 001: compute directly)."""

from __future__ import annotations

from typing import Any

from tvm.script.ir_builder import tirx as T

from kernels import tir
from kernels.depthwise import (
    BLOCK_CYCLES,
    GROUPS,
    LOOP_CYCLES,
    ROWS,
    STORE_CYCLES,
    streamed_seconds,
    why_not_depthwise,
)
from kernels.depthwise_plan import inner_rows
from kernels.depthwise_row_nest import RowNest, RowPlan
from kernels.kernel import Array, Kernel, conv_of
from kernels.layout import PLAIN, Layouts
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Conv2d, Workload

VALUES, SHORT_LOADS = 6, 4
"""Registers for values on their way, and what each register too few costs a block in loads: of taps again, or
of sums put aside."""


class DepthwiseRows(Kernel):
    """Convolution of every channel by a filter of its own, along rows at least as long as a vector.

    Knobs: ``rows`` x ``vectors`` of the output are one register block; with threads ``split`` says whether
    they share out channels or rows.
    """

    name = "depthwise_rows"

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only float32 convolutions with as many groups as channels, column stride 1 or 2, and long rows."""
        reason = why_not_depthwise(workload)
        if reason is not None:
            return reason
        conv = conv_of(workload)
        if conv.stride[1] > 2:
            return f"column stride {conv.stride[1]} is above 2"
        shortest = target.lanes()
        if conv.out_w < shortest or conv.in_w < shortest * conv.stride[1]:
            return f"its rows are shorter than a vector of {shortest}"
        return None

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Register blocks that leave half of the registers to values and taps; larger ones spill."""
        conv = conv_of(workload)
        limit, vectors = target.vector_registers // 2, -(-conv.out_w // target.lanes())

        def invalid(point: Knobs) -> str | None:
            rows, wide = int(point["rows"]), int(point["vectors"])
            if rows * wide <= limit:
                return None
            return f"{rows}x{wide} accumulators spill: {target.name} holds {limit}"

        knobs: dict[str, list[int | str]] = {
            "rows": [rows for rows in (1, 2, 3, 4, 6) if rows <= conv.out_h],
            "vectors": [wide for wide in (1, 2, 3, 4) if wide <= vectors],
        }
        if threads > 1:
            knobs["split"] = [GROUPS, ROWS]
        return Space(self.name, knobs, invalid)

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Arithmetic and loads of every register block, and the stream of inputs and outputs."""
        conv = conv_of(workload)
        plan = _plan(conv, config, target)
        inner = len(inner_rows(conv))
        blocks, rest = divmod(inner, plan.rows)
        cycles = 0.0
        for starts, count in plan.blocks:
            whole = _block_cycles(plan, plan.rows, len(starts), target)
            one = _block_cycles(plan, 1, len(starts), target) + conv.kh * LOOP_CYCLES
            cycles += count * (blocks * whole + (rest + conv.out_h - inner) * one)
        members = conv.n * conv.out_c
        shared = conv.out_h if plan.split == ROWS else members
        return streamed_seconds(conv, members * cycles, target, shared, threads)

    def pack(self, workload: Workload, config: Config, target: Target, weights: Array) -> Array:
        """As they are: [channel][tap]."""
        return weights.reshape(-1)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """Every thread's share of the channels, or of the rows of each."""
        conv = conv_of(workload)
        plan = _plan(conv, config, target)
        function = tir.Function(workload, name, conv.out_c * plan.taps)
        with function as args, tir.loop(threads, threads) as part:
            share = {GROUPS: (0, conv.n * conv.out_c), ROWS: (0, conv.out_h)}
            total = share[plan.split][1]
            share[plan.split] = (T.Bind(part * total // threads), T.Bind((part + 1) * total // threads))
            nest = RowNest(plan, args)
            with T.serial(*share[GROUPS]) as member:
                nest.run(member, share[ROWS])
        return function.result()


def _block_cycles(plan: RowPlan, rows: int, vectors: int, target: Target) -> float:
    """One register block of ``rows`` x ``vectors`` accumulators."""
    conv = plan.conv
    lines = {i * conv.stride[0] + r * conv.dilation[0] for i in range(rows) for r in range(conv.kh)}
    # With a stride of 2, two vectors hold two taps.
    loads = len(lines) * vectors * -(-conv.kw // conv.stride[1]) * conv.stride[1]
    loads += SHORT_LOADS * max(0, rows * vectors + plan.taps + VALUES - target.vector_registers)
    products = rows * vectors * plan.taps
    if conv.stride[1] > 1:
        products += len(lines) * vectors * conv.kw
    work = max(products / target.fmas_per_cycle, loads / target.loads_per_cycle)
    return work + rows * vectors * STORE_CYCLES + BLOCK_CYCLES


def _plan(conv: Conv2d, config: Config, target: Target) -> RowPlan:
    split = str(dict(config.knobs).get("split", GROUPS))
    return RowPlan(conv, target.lanes(), config.int("rows"), config.int("vectors"), split)
