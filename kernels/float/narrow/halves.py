"""float16 made float32: by the instruction for it where there is one, else by its bits."""

from __future__ import annotations

from kernels.emit.tir import F32, const, convert, number, reinterpret, splat
from kernels.emit.tvm import tirx
from kernels.emit.types import Vector
from kernels.isa.arm import AARCH64
from kernels.isa.x86 import X86
from kernels.target import Target
from kernels.targets.x86_features import has

BIAS = 2.0**112
"""The exponent of float32 counts from 127, that of float16 from 15."""


def float_of_half(bits: Vector, target: Target, lanes: int) -> Vector:
    """The floats of ``bits`` (int16 lanes) that are those of finite float16 numbers."""
    if converts(target):
        return convert(reinterpret(bits, "float16", lanes), F32, lanes)
    wide = convert(bits, "int32", lanes)
    size = tirx.shift_left(tirx.bitwise_and(wide, const(0x7FFF, lanes=lanes)), const(13, lanes=lanes))
    sign = tirx.bitwise_and(wide, const(-(1 << 31), lanes=lanes))
    value = reinterpret(size, F32, lanes) * splat(number(BIAS), lanes)
    return reinterpret(tirx.bitwise_or(reinterpret(value, "int32", lanes), sign), F32, lanes)


def converts(target: Target) -> bool:
    """Whether the target has an instruction for it."""
    return target.isa is AARCH64 or (target.isa is X86 and has(target, "f16c"))
