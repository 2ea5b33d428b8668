"""From int32 sums to results on POWER10 and Hexagon."""

from __future__ import annotations

from kernels.emit import mma
from kernels.emit.tir import const, of_type
from kernels.emit.tvm import T, tirx
from kernels.emit.types import Vector
from kernels.int8 import finish
from kernels.int8.hvx import instructions as hvx
from kernels.int8.requantize import Multiply
from kernels.int8.tir import QArguments
from kernels.isa.power import POWER
from kernels.target import Target


class Finish(finish.Finish):
    """The same, with POWER10's instruction for the upper half of a product, which older ones lack, and with
    HVX's for scales of any size.

    POWER10's LLVM finds it in a product of int64 only where the multiplier is widened beside it, and takes
    that out of loops.
    """

    def __init__(self, args: QArguments, how: str, bits: int, target: Target) -> None:
        super().__init__(args, how, bits)
        self._high = how == "high" and target.isa is POWER and target.matrix == mma.NAME
        self._hvx = how == "exact" and hvx.has_hvx(target)

    def _multiply(self, multiplier: Vector, shift: Vector) -> Multiply:
        if self._hvx:
            return hvx.scaling(multiplier, shift, self._how)
        if not self._high:
            return super()._multiply(multiplier, shift)
        lanes, kind = self._lanes, of_type("int32", self._lanes)
        multiplier, shift = T.Bind(multiplier), T.Bind(shift)
        half = T.Bind(tirx.shift_left(const(1, lanes=lanes), shift - const(2, lanes=lanes)))
        rest = T.Bind(shift - const(1, lanes=lanes))

        def multiply(value: Vector) -> Vector:
            upper = tirx.call_llvm_pure_intrin(kind, "llvm.ppc.altivec.vmulhsw", value, multiplier)
            return tirx.shift_right(upper + half, rest)

        return multiply
