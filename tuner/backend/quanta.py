"""How relax.quantize is lowered: as by TVM, but NaN becomes the least integer on every processor."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import te, tirx
from tvm.ir import GenericConst

from kernels.int8.saturate import inside
from kernels.loops.expressions import dtype_of


def quantize(builder: Any, call: Any) -> Any:
    """The call of a function that rounds ``data / scale + zero`` to whole numbers, ties to even, saturated.

    Scale and zero are one number, or one for each place of the axis. TVM's own clip keeps a NaN, and each
    processor converts that to another integer.
    """
    axis, dtype = call.attrs.axis, str(call.attrs.out_dtype)

    def compute(data: Any, scale: Any, zero: Any) -> Any:
        def at(operand: Any, place: Any) -> Any:
            if not isinstance(operand, te.Tensor):
                return operand
            single = all(isinstance(extent, tirx.IntImm) and extent.value == 1 for extent in operand.shape)
            return operand[(0,) * len(operand.shape)] if single else operand[place]

        def one(*places: Any) -> Any:
            scaled = data[places] / at(scale, places[axis])
            whole = (te.round(scaled) if "int" in dtype else scaled) + at(zero, places[axis])
            low, high = (
                end.astype(dtype_of(whole)) for end in (tirx.min_value(dtype), tirx.max_value(dtype))
            )
            return inside(whole, low, high).astype(dtype)

        return te.compute(data.shape, one, name="quantized")

    data, scale, zero = call.args
    return builder.call_te(compute, data, _number(scale), _number(zero), primfunc_name_hint="quantize")


def _number(expr: Any) -> Any:
    """A constant of one element as a number that the function holds."""
    if not isinstance(expr, GenericConst) or not isinstance(expr.value, tvm.runtime.Tensor):
        return expr
    value = expr.value.numpy()
    return tirx.const(value.item(), str(value.dtype)) if value.size == 1 else expr
