"""From int32 lanes to bytes with saturation."""

from __future__ import annotations

from kernels.emit.tir import const, convert
from kernels.emit.tvm import tirx
from kernels.emit.types import Vector
from kernels.workload.qconv2d import LIMITS, Range

INT16 = (-(1 << 15), (1 << 15) - 1)


def inside(value: Vector, low: Vector, high: Vector) -> Vector:
    """A float from ``low`` to ``high``; what is no number becomes ``low``, as in onnxruntime."""
    value = tirx.Select(value > low, value, low)
    return tirx.Select(value < high, value, high)


def saturated(value: Vector, dtype: str, clamp: Range, lanes: int) -> Vector:
    """``value`` (int32) clipped to ``clamp``, which lies in ``dtype``, as lanes of ``dtype``."""
    low, high = LIMITS[dtype]
    # In two steps, as vectors are packed.
    for wide, narrow, (least, most) in (("int32", "int16", INT16), ("int16", dtype, (low, high))):
        value = tirx.Max(tirx.Min(value, const(most, wide, lanes)), const(least, wide, lanes))
        value = convert(value, narrow, lanes)
    # Bytes are four times as many a vector; what the type holds anyhow is saturated as they are packed.
    if clamp[1] < high:
        value = tirx.Min(value, const(clamp[1], dtype, lanes))
    if clamp[0] > low:
        value = tirx.Max(value, const(clamp[0], dtype, lanes))
    return value
