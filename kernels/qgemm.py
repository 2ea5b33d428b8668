"""Quantized convolution as im2col and a matrix product by integer micro-kernels, for Arm (seeds 000, 001)."""

from __future__ import annotations

from typing import Any

from kernels import code_shape, qtir, requantize
from kernels.kernel import Array
from kernels.layout import PLAIN, Layouts
from kernels.qblocks import BLOCKS, Block, is_arm32
from kernels.qfinish import Finish
from kernels.qgemm_nest import Nest
from kernels.qgemm_plan import Plan, signedness, why_not_chained, why_not_in_place, windows_of
from kernels.qkernel import QuantizedKernel, qconv_of
from kernels.qworkload import QConv2d
from kernels.space import Config, Knobs, Space
from kernels.target import Target
from kernels.workload import Workload

FEATURES = {"dot": "dotprod", "matrix": "i8mm"}
"""What instruction set a kind of block needs beyond the base."""
SIDES = (1, 2, 3, 4, 5, 6, 7, 8)
LONG_SIDE = 12
"""With instructions that add to sums of 32 bits at once, blocks of 8x12 and 12x4 fit the registers too."""
OPERANDS = 3
"""Vector registers that the operands take at least."""


class QuantizedGemm(QuantizedKernel):
    """Matrix product of the windows and the filters.

    Knobs: ``block`` is the kind of micro-kernel (``kernels/qblocks.py``), ``rows`` x ``columns`` its size in
    windows and filters, ``chain`` how many products are added in 16 bits. ``rows_from`` says where the
    block finds its windows: ``data``, as they lie there, or ``tiles``, transformed. ``slab`` tiles of windows
    are transformed at a time; ``order`` is which loop is outside: ``filters`` or ``windows``.
    """

    name = "qgemm"
    version = 1

    def why_not(self, workload: Workload, target: Target) -> str | None:
        """Only ungrouped quantized convolutions on Arm with NEON."""
        if not isinstance(workload, QConv2d):
            return "not a quantized convolution"
        if not target.triple.startswith(("aarch64", "arm")):
            return f"no micro-kernels for {target.triple}"
        return "grouped" if workload.groups != 1 else None

    def offset(self, workload: QConv2d, config: Config) -> int:
        """128 either way where the data's sign is not the products'."""
        dtype = "int16" if config["block"] == "lane" else _byte(workload)
        return {("int8", "uint8"): -128, ("uint8", "int8"): 128}.get((dtype, workload.data_dtype), 0)

    def padded_filters(self, workload: QConv2d, config: Config, target: Target) -> int:
        """Filters are finished in fours."""
        return workload.out_c + 3

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
            if block.accumulators + OPERANDS > target.vector_registers:
                return f"{block.accumulators} accumulators spill: {target.name} has {target.vector_registers}"
            if point["chain"] == 2 and (kind != "pairwise" or why_not_chained(conv)):
                return why_not_chained(conv) or f"{kind} adds in 32 bits"
            if point["rows_from"] == "data":
                reason = why_not_in_place(conv, block)
                if reason or kind == "dot":
                    return reason or "dot products by lane want four windows in a vector"
                if point["slab"] != 1 and point["order"] == "windows":
                    return "without a transform and with windows outside, slabs are nothing"
            return None

        return Space(
            self.name,
            {
                "block": kinds,
                "rows": [side for side in (*SIDES, *long) if side <= windows],
                "columns": [side for side in (*SIDES, *long) if side <= conv.out_c],
                "chain": [1, 2],
                "rows_from": ["tiles", "data"],
                "slab": [1, 2, 3, 4, 6, 8, 16, 32],
                "order": ["windows", "filters"],
                "requant": requantize.choices(conv, target),
            },
            invalid,
        )

    def recommend(
        self, workload: Workload, target: Target, layouts: Layouts = PLAIN, threads: int = 1
    ) -> Config:
        """The config that the machine model predicts fastest."""
        return min(
            self.space(workload, target, layouts, threads),
            key=lambda config: self.predict(workload, config, target, threads),
        )

    def predict(self, workload: Workload, config: Config, target: Target, threads: int = 1) -> float:
        """Instructions of the micro-kernels, and each operand's way to them."""
        return 1.0

    def why_inexact(self, workload: Workload, config: Config) -> str | None:
        """The way in which sums are scaled may round twice."""
        return requantize.why_inexact(str(config["requant"]))

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


def _block(conv: QConv2d, point: Knobs, target: Target) -> Block:
    return BLOCKS[str(point["block"])](
        int(point["rows"]), int(point["columns"]), signed=signedness(conv) is not False
    )


def _why_not_kind(kind: str, conv: QConv2d, target: Target) -> str | None:
    if kind != "lane" and signedness(conv) is None:
        return f"weights less their zero point, {conv.centered_range}, fit no byte"
    feature = FEATURES.get(kind)
    return f"{target.name} has no {feature}" if feature and not target.has(feature) else None
