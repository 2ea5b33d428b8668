"""The activation in the epilogue of all float families."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from kernels.emit.tir import F32, index, of_type, splat, vector
from kernels.emit.tvm import tirx, tvm
from kernels.emit.types import Buffer, Expr, Index, PrimFunc, Vector
from kernels.emit.vector_math.activations import WRITTEN
from kernels.emit.vector_math.called import Has, define, linked
from kernels.emit.vector_math.code import SINGLE, Code, Value
from kernels.layout import NCHW, NHWC, block_of
from kernels.target import Target
from kernels.workload.base import Activation, Conv2d, Gemm, NarrowGemm


@dataclass
class Activate:
    """Emits calls of the workload's activation, and keeps the functions that they call.

    ``out`` is the layout of the output, ``slope`` the buffer of one value a channel, if there is one.
    """

    activation: Activation
    workload: Conv2d | Gemm | NarrowGemm
    slope: Buffer | None
    has: Has
    out: str
    _texts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, workload: Conv2d | Gemm | NarrowGemm, slope: Buffer | None, target: Target, out: str = NCHW
    ) -> Activate | None:
        """That of ``workload``; None where it has no activation."""
        activation = workload.epilogue.activation
        if activation is None:
            return None
        return cls(activation, workload, slope, Has.of(tvm.target.Target(target.tvm)), out)

    def __call__(self, value: Vector, at: Index, lanes: int) -> Vector:
        """``value`` of the output's elements from ``at`` after the activation; LLVM inlines the call."""
        activation = self.activation
        slopes = [] if self.slope is None else [self._slope(self.slope, index(at), lanes)]

        def write(*values: Value) -> Value:
            return WRITTEN[activation.kind](*values, *activation.numbers)

        numbers = "".join(f"_{struct.pack('>f', each).hex()}" for each in activation.numbers)
        name = f"tilefleet_{activation.kind}{numbers}_{lanes}"
        if name not in self._texts:
            define(name, write, Code(SINGLE, lanes, *self.has), 1 + len(slopes), self._texts)
        return tirx.call_pure_extern(of_type(F32, lanes), name, value, *slopes)

    def linked(self, function: PrimFunc) -> PrimFunc:
        """``function`` with the functions that its code calls."""
        return linked(function, self._texts)

    def _slope(self, slope: Buffer, at: Expr, lanes: int) -> Vector:
        """The slopes of elements of one row of a plane, or of channels of one pixel."""
        workload = self.workload
        channels = index(workload.bias_length)
        if isinstance(workload, Gemm | NarrowGemm) or self.out == NHWC:
            return slope[vector(tirx.truncmod(at, channels), lanes)]
        if self.out == NCHW:
            plane = tirx.truncdiv(at, index(workload.windows))
            return splat(slope[tirx.truncmod(plane, channels)], lanes)
        block = block_of(self.out)
        assert block is not None
        blocks = tirx.truncdiv(at, index(workload.windows * block))
        first = tirx.truncmod(blocks, index(workload.out_c // block)) * index(block)
        return slope[vector(first + tirx.truncmod(at, index(block)), lanes)]
