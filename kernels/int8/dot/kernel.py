"""Direct quantized convolution on POWER10 (VSX) and Hexagon (HVX).

The nest is that of x86's direct convolution: windows are broadcast in units of channels, filters are vectors,
and sums stay in registers from the bias to the requantized result.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.emit import tir
from kernels.emit.tvm import tirx
from kernels.emit.types import Buffer, Index, Vector
from kernels.int8.dot.finish import Finish
from kernels.int8.dot.instructions import WAYS, ways, why_not_dots
from kernels.int8.tir import QArguments
from kernels.int8.x86.direct.emit import emit
from kernels.int8.x86.direct.grouped import MergedPlan, QuantizedGroups, merged
from kernels.int8.x86.direct.kernel import DirectPlan, QuantizedDirect
from kernels.int8.x86.direct.plan import Plan
from kernels.kernel import KnobValues
from kernels.layout import Layouts
from kernels.space import Config
from kernels.target import Target
from kernels.workload.qconv2d import QConv2d

WORD = "tilefleet_word"
_LLVM = f"""
define i32 @{WORD}(ptr %at) {{
  %word = load i32, ptr %at, align 4
  ret i32 %word
}}
"""
"""LLVM does not see that the bytes of a unit are a word, and Hexagon loads words where they are aligned."""


class _Dots(DirectPlan):
    """A plan with other instructions."""

    ways = WAYS

    def finish(self, args: QArguments) -> Finish:
        """What makes results of sums."""
        return Finish(args, self.knobs.requant, self.bits, self.target)

    def unit_at(self, source: Buffer, at: Index) -> Vector:
        """A unit of data in every lane, by one load where all units lie at whole words."""
        element_bytes = 4 // self.way.unit
        if self.conv.depth * element_bytes % 4:
            return super().unit_at(source, at)
        address = tirx.address_of(source[tir.index(at)])
        return tir.splat(tirx.call_extern("int32", WORD, address), self.lanes)

    def body(self, args: QArguments) -> None:
        """Emit the code."""
        with tir.with_llvm(_LLVM):
            emit(self, args)


@dataclass(frozen=True)
class DotPlan(_Dots):
    """The plan of one convolution."""


@dataclass(frozen=True)
class DotGroupsPlan(_Dots, MergedPlan):
    """The plan of merged groups."""


class QuantizedDots(QuantizedDirect):
    """Direct convolution by vmsummbm, vmsumshm, vrmpy or vdmpy; the knobs are those of x86."""

    name = "qdot"
    version = 2
    dynamic = False
    plan_type = DotPlan

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Only where there are such instructions, and groups that have at least a vector of filters."""
        if workload.groups > 1 and workload.filters < target.lanes("int32"):
            return "groups have fewer filters than a vector"
        return why_not_dots(target)

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """The best way, blocks that fit the registers, whole planes and bands, both orders."""
        return {**self.knobs_of(ways(workload, target), workload, target, threads), "prefetch": [0]}


class QuantizedDotGroups(QuantizedGroups):
    """Groups of few filters, depthwise ones among them, several as one with zeros between them."""

    name = "qdot_grouped"
    version = 2
    dynamic = False

    def why_unfit(self, workload: QConv2d, target: Target) -> str | None:
        """Only where there are such instructions, and groups that have no vector of filters."""
        if workload.groups == 1:
            return "not grouped"
        if workload.filters >= target.lanes("int32"):
            return "groups have a vector of filters"
        return why_not_dots(target)

    def knobs(self, workload: QConv2d, target: Target, layouts: Layouts, threads: int) -> KnobValues:
        """Those of the merged groups."""
        whole = merged(workload, target)
        return {**self.knobs_of(ways(whole, target), whole, target, threads), "prefetch": [0]}

    def plan(self, workload: QConv2d, config: Config, target: Target, threads: int = 1) -> Plan:
        """That of the merged groups."""
        return DotGroupsPlan.of(merged(workload, target), config, target, threads, original=workload)
