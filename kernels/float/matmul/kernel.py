"""Products of two activations: outer products of what lies anyhow, packed where that pays."""

from __future__ import annotations

from kernels.float.matmul import cost
from kernels.float.matmul.blocking import MOST_CHAINS, tiles, ways
from kernels.float.matmul.emit import emit
from kernels.float.matmul.plan import Plan, depths, factors_of
from kernels.kernel import Kernel, KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.base import MatMul


class MatMulPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    body = emit


class ActivationsMatMul(Kernel[MatMul]):
    """Matrix products of two activations; its knobs are those of ``plan.Knobs``."""

    name = "matmul"
    workload_type = MatMul
    plan_type = MatMulPlan

    def knobs(self, workload: MatMul, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Where columns may be read, the register blocks that fit, and how much of k is packed."""
        factors = factors_of(workload)
        return {
            "way": ways(factors, target),
            "tile": [f"{rows}x{vectors}" for rows, vectors in tiles(factors, target)],
            "chains": list(range(MOST_CHAINS, 0, -1)),
            "depth": depths(workload.k),
        }
