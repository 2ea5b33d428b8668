"""Quantized convolution as im2col and a matrix product by integer micro-kernels, for Arm (seeds 000, 001)."""

from __future__ import annotations

from kernels.int8 import requantize
from kernels.int8.arm.blocks.kinds import BLOCKS
from kernels.int8.arm.gemm import cost
from kernels.int8.arm.gemm.emit import emit
from kernels.int8.arm.gemm.pack import panels
from kernels.int8.arm.gemm.plan import DATA, FEATURES, FILTERS, LONG_SIDE, SIDES, TILES, WINDOWS, Plan
from kernels.int8.arm.operands import signedness, why_not_chained
from kernels.int8.arm.plan import why_not_neon
from kernels.int8.kernel import QuantizedKernel, QuantizedPlan
from kernels.isa.arm import ARM32
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d


class GemmPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack_centered = panels
    body = emit


class QuantizedGemm(QuantizedKernel):
    """Matrix product of the windows and the filters; its knobs are those of ``plan.Knobs``."""

    name = "qgemm"
    version = 5
    dynamic = True
    plan_type = GemmPlan

    def tile_rows(self, plan: QuantizedPlan) -> int | None:
        """Those of the block."""
        assert isinstance(plan, Plan)
        return plan.block.rows

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Only ungrouped convolutions on Arm with NEON."""
        return why_not_neon(target) or ("grouped" if workload.groups != 1 else None)

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Every kind of block that the target has and the weights allow, in every size that may be best."""
        kinds = kinds_for(workload, target)
        sides = (*SIDES, LONG_SIDE) if set(FEATURES) & set(kinds) else SIDES
        depth, near = workload.taps * workload.in_c, target.l1_bytes
        windows = workload.n * workload.windows
        macro: KnobValues = {}
        if min(windows, workload.out_c) * depth > near:  # else one of the two stays near in any order
            macro = {"order": [WINDOWS, FILTERS]}
            if 2 * sides[-1] * depth >= near // 2:
                macro["split"] = [1, 2, 4]
        return {
            "block": kinds,
            "rows": [side for side in sides if side <= workload.n * workload.windows],
            "columns": [side for side in sides if side <= workload.out_c],
            "chain": [1, 2],
            "rows_from": [TILES, DATA],
            "slab": [1, 2, 3, 4, 6, 8, 16],
            "requant": requantize.choices(workload, target),
            **macro,
        }


def kinds_for(workload: QConv2d, target: Target) -> list[str]:
    """The kinds of block that ``target`` has, the weights of ``workload`` allow, and none of them beats."""
    bytes_fit = signedness(workload) is not None
    needs = {kind: FEATURES.get(kind) for kind in BLOCKS if kind == "lane" or bytes_fit}
    kinds = [kind for kind, feature in needs.items() if feature is None or target.has(feature)]
    newer = set(FEATURES) & set(kinds)
    if newer or target.isa is ARM32 or signedness(workload) is not True or why_not_chained(workload):
        return [kind for kind in kinds if kind != "fours"]
    return kinds
