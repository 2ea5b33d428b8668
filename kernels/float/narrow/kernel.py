"""Matrix product of few rows by weights that stay narrow in memory: 4 or 8 bits with scales, or float16.

With few rows the weights' way from memory is what takes time, so they are unpacked in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernels.arithmetic import ceil_div
from kernels.emit.function import Function
from kernels.emit.types import PrimFunc
from kernels.float.activated import Activate
from kernels.float.gemm.plan import even_height
from kernels.float.narrow import cost
from kernels.float.narrow.emit import emit
from kernels.float.narrow.pack import panels, words
from kernels.float.narrow.plan import NarrowArguments, Plan, accumulators
from kernels.kernel import Array, Kernel, KnobValues
from kernels.layout import Layouts
from kernels.target import Target
from kernels.workload.narrow import NarrowGemm


class NarrowPlan(Plan):
    """A plan with what is made of it."""

    cycles = cost.cycles
    pack = words

    def constants(self, inputs: Sequence[Array]) -> list[Array]:
        """The packed words, scales and zeros."""
        weights, *codes = inputs[1 : 1 + self.workload.constants]
        return [self.pack(weights), *(panels(self, each) for each in codes)]

    def emit(self, name: str) -> PrimFunc:
        """The function, called ``name``: data, ``constants``, what there is of bias and residual, result."""
        gemm, epilogue = self.workload, self.workload.epilogue
        shapes = {"data": gemm.data_shape, **self.shapes}
        shapes |= {"bias": (gemm.bias_length,)} if epilogue.bias else {}
        shapes |= {"slope": (gemm.bias_length,)} if epilogue.slope else {}
        shapes |= {"residual": gemm.out_shape} if epilogue.residual else {}
        shapes["out"] = gemm.out_shape
        function = Function(name, shapes, {"weights": self.packed_dtype})
        with function as buffers:
            named = dict(zip(shapes, buffers, strict=True))
            activate = Activate.of(gemm, named.pop("slope", None), self.target)
            emit(self, NarrowArguments(gemm, **named, activate=activate))
        return activate.linked(function.result()) if activate else function.result()


class Narrow(Kernel[NarrowGemm]):
    """Matrix product by narrow weights; its knobs are those of ``plan.Knobs``."""

    name = "narrow"
    version = 1
    workload_type = NarrowGemm
    plan_type = NarrowPlan

    def knobs(self, workload: NarrowGemm, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Register blocks that fit the registers, and tiles that share the rows out evenly."""
        most, columns = accumulators(workload, target), ceil_div(workload.n, target.lanes())
        vectors = [count for count in (1, 2, 3, 4, 6) if count <= min(columns, most)]
        heights = {even_height(workload.m, most // count) for count in vectors if count <= 4}
        return {"rows": sorted(heights | {even_height(workload.m, 1)}), "vectors": vectors}
