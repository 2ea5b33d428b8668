"""Quantized convolution as im2col and a matrix product by integer micro-kernels, for Arm (seeds 000, 001)."""

from __future__ import annotations

from typing import Any

from kernels import code_shape, machine, qtir
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qblocks import BLOCKS, Block
from kernels.qfinish import Finish, finish_cycles
from kernels.qgemm_nest import Nest
from kernels.qgemm_plan import Plan, signedness, why_not_chained, why_not_in_place, windows_of
from kernels.qkernel import qconv_of
from kernels.qneon import NeonKernel, ways, why_not_neon
from kernels.qworkload import QConv2d
from kernels.space import Config, Knobs, Space
from kernels.target import Target, is_arm32
from kernels.workload import Workload

FEATURES = {"dot": "dotprod", "matrix": "i8mm"}
"""What instruction set a kind of block needs beyond the base."""
SIDES = (1, 2, 3, 4, 5, 6, 7, 8)
LONG_SIDE = 12
"""Instructions that add to sums of 32 bits at once leave registers for blocks of 8x12 and 12x4."""
SPILLED = 1.7
"""How much slower a step is whose operands do not fit the registers beside the sums."""
GATHERED = 3.0
"""How much more the transform takes an element where a step's elements are not of one tap."""


class QuantizedGemm(NeonKernel):
    """Matrix product of the windows and the filters.

    Knobs: ``block`` is the kind of micro-kernel (``kernels/qblocks.py``), ``rows`` x ``columns`` its size in
    windows and filters, ``chain`` how many products are added in 16 bits. ``rows_from`` says where the
    block finds its windows: ``data``, as they lie there, or ``tiles``, transformed. ``slab`` tiles of windows
    are transformed and meet all filters before the next: they should fit L1. ``requant`` is how sums are
    scaled (``kernels/qneon.py``).
    """

    name = "qgemm"
    version = 2

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only ungrouped quantized convolutions on Arm with NEON."""
        if not isinstance(workload, QConv2d):
            return "not a quantized convolution"
        return why_not_neon(target) or ("grouped" if workload.groups != 1 else None)

    def offset(self, workload: QConv2d, config: Config) -> int:
        """128 either way where the data's sign is not the products'."""
        dtype = "int16" if config["block"] == "lane" else _byte(workload)
        return {("int8", "uint8"): -128, ("uint8", "int8"): 128}.get((dtype, workload.data_dtype), 0)

    def space(self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1) -> Space:
        """Every kind of block that the target has and the weights allow, in every size that may be best."""
        conv = qconv_of(workload)
        kinds = [kind for kind in BLOCKS if _why_not_kind(kind, conv, target) is None]
        long = [LONG_SIDE] if {"dot", "matrix"} & set(kinds) else []
        windows = windows_of(conv)

        def invalid(point: Knobs) -> str | None:
            kind, rows, columns = str(point["block"]), int(point["rows"]), int(point["columns"])
            if LONG_SIDE in (rows, columns) and kind not in FEATURES:
                return f"{kind} has blocks of up to {SIDES[-1]}x{SIDES[-1]}"
            block = _block(conv, point, target)
            if block.accumulators + 1 >= target.vector_registers:
                return f"{block.accumulators} sums spill: {target.name} has {target.vector_registers} vectors"
            if point["chain"] == 2 and (kind != "pairwise" or why_not_chained(conv)):
                return why_not_chained(conv) or f"{kind} adds in 32 bits"
            if point["rows_from"] == "data":
                return _LANES if kind == "dot" else why_not_in_place(conv, block)
            return None

        return Space(
            self.name,
            {
                "block": kinds,
                "rows": [side for side in (*SIDES, *long) if side <= windows],
                "columns": [side for side in (*SIDES, *long) if side <= conv.out_c],
                "chain": [1, 2],
                "rows_from": ["tiles", "data"],
                "slab": [1, 2, 3, 4, 6, 8, 16],
                "requant": ways(conv, target),
            },
            invalid,
        )

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Instructions of blocks and transform, and how far weights and windows are when they are used."""
        conv = qconv_of(workload)
        plan = Plan.of(conv, config, target)
        block, size = plan.block, 2 if plan.block.dtype == "int16" else 1
        loads = (block.rows * block.depth + block.panel * block.depth) * size / 16
        step = max(block.cycles / target.fmas_per_cycle, loads / target.loads_per_cycle)
        if block.name == "lane" and plan.in_place:
            step += block.rows / 2 / target.fmas_per_cycle  # bytes are widened there
        if block.accumulators + block.operands > target.vector_registers:
            step *= SPILLED
        each = plan.steps * step + machine.CALL_CYCLES
        each += block.accumulators / target.fmas_per_cycle if block.name == "pairwise" else 0.0
        each += block.rows * -(-block.columns // 4) * finish_cycles(str(config["requant"]), target)
        tiles, panels = -(-plan.windows // block.rows), -(-conv.out_c // block.columns)
        cycles = tiles * panels * each
        windows = tiles * block.rows * plan.padded_depth * size
        if not plan.in_place:
            gathered = GATHERED if conv.in_c % block.depth else 1.0
            cycles += windows / 16 * 2 * machine.MOVE_CYCLES * gathered
        slab = plan.slab * block.rows * plan.padded_depth * size
        panel, weights = block.panel * plan.padded_depth * size, plan.packed * size
        cycles += -(-tiles // plan.slab) * machine.stream_cycles(target, weights, slab + weights)
        # A cache of few ways loses some of what only just fits.
        cycles += (panels - 1) * machine.stream_cycles(target, windows, 2.0 * (slab + panel))
        return machine.seconds(cycles + machine.cold_cycles(target, weights) / 2)

    def pack_centered(self, conv: QConv2d, config: Config, target: Target, weights: Array) -> Array:
        """Panels of ``columns`` filters, as ``Plan.pack`` orders them."""
        return Plan.of(conv, config, target).pack(weights)

    def build(self, workload: Workload, config: Config, target: Target, threads: int, name: str) -> Any:
        """The loop nest around the micro-kernel."""
        conv = qconv_of(workload)
        plan = Plan.of(conv, config, target)
        filters = self.padded_filters(conv, config, target)
        function = qtir.QFunction(conv, name, plan.packed, plan.block.dtype, filters)
        with function as args, code_shape.linked():
            Nest(plan, args, Finish(args, str(config["requant"]), is_arm32(target))).run(threads)
        return function.result()


def _byte(conv: QConv2d) -> str:
    return "uint8" if signedness(conv) is False else "int8"


_LANES = "lanes of dot products are four windows"


def _block(conv: QConv2d, point: Knobs, target: Target) -> Block:
    signed = signedness(conv) is not False
    rows, columns = int(point["rows"]), int(point["columns"])
    return BLOCKS[str(point["block"])](rows, columns, signed=signed, arm32=is_arm32(target))


def _why_not_kind(kind: str, conv: QConv2d, target: Target) -> str | None:
    if kind != "lane" and signedness(conv) is None:
        return f"weights less their zero point, {conv.centered_range}, fit no byte"
    feature = FEATURES.get(kind)
    return f"{target.name} has no {feature}" if feature and not target.has(feature) else None
