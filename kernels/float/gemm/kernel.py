"""Packed GEMM: constant weights in column panels, an outer-product register block, Goto's cache blocks.

The micro-kernel is the outer product of seed 003, section 5.2: broadcasts of one operand times vectors of the
other. The weights are packed when the model is built, and the activations are broadcast from where they lie,
so nothing is packed at run time. With one row it is a GEMV that streams the panels once.
"""

from __future__ import annotations

from kernels.arithmetic import ceil_div
from kernels.float.gemm import cost
from kernels.float.gemm.emit import emit
from kernels.float.gemm.pack import panels
from kernels.float.gemm.plan import SPLITS, Plan, accumulators, even_height
from kernels.kernel import Kernel, KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.base import Gemm


class GemmPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack = panels
    body = emit


class PackedGemm(Kernel[Gemm]):
    """Matrix product by packed constant weights; its knobs are those of ``plan.Knobs``."""

    name = "gemm"
    version = 4
    workload_type = Gemm
    plan_type = GemmPlan

    def knobs(self, workload: Gemm, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Register blocks that fit the registers, and up to three sizes of each cache block."""
        gemm, limit = workload, accumulators(target)
        columns = ceil_div(gemm.n, target.lanes())
        widths = [v for v in ((2, 3, 4) if gemm.m > 1 else (2, 4, 8, limit)) if v <= columns] or [columns]
        heights = sorted({even_height(gemm.m, _tallest(v, target) // c) for v in widths for c in (1, 2)})
        return {
            "rows": heights,
            "vectors": widths,
            "chains": [1, 2, 4] if limit // max(heights) // min(widths) > 1 else [1],
            "kc": blocks_of(gemm.k, 512),
            "mc": blocks_of(gemm.m, 96),
            "nc": blocks_of(gemm.n, 1024) if gemm.m > 96 else [gemm.n],
            **({"split": SPLITS} if threads > 1 else {}),
        }


def _tallest(vectors: int, target: Target) -> int:
    """Rows of the tallest register block of that width whose operands still find registers."""
    return min(accumulators(target), target.vector_registers - vectors - 1) // vectors


def blocks_of(extent: int, size: int) -> list[int]:
    """The size if it is below ``extent``, and all of it."""
    return [size, extent] if size < extent else [extent]
