"""Rounding of float32 to the numbers of a type of 16 bits, by its bits: no processor need have the type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto, TensorProto
from tvm import te, tirx

from compiler.ir.graph import OnnxGraph, attributes_of

INFINITY = 0x7F800000
SIGN = 0x80000000
HALF_END = 0x47800000
"""2 ** 16: the first number beyond the largest float16 is rounded to it."""
HALF = 0x3F000000
"""The bits of 0.5."""
HALF_NORMAL = 0x38800000
"""2 ** -14, the least float16 that is no denormal."""


def rounding(builder: Any, _: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``: to the nearest, of two the even; what is too large is infinite, and NaN stays."""
    lost = 13 if attributes_of(node)["to"] == TensorProto.FLOAT16 else 16

    def element(x: Any) -> Any:
        bits = tirx.reinterpret("uint32", x)
        size = bits & _bits(SIGN - 1)
        odd = (size >> _bits(lost)) & _bits(1)
        near = (size + odd + _bits((1 << (lost - 1)) - 1)) & _bits((1 << 32) - (1 << lost))
        if lost == 13:
            # The denormals are the multiples of 2 ** -24, as float32 has them between a half and one.
            half = tirx.reinterpret("float32", size) + tirx.const(0.5, "float32")
            count = (tirx.reinterpret("uint32", half) - _bits(HALF)).astype("int32").astype("float32")
            small = tirx.reinterpret("uint32", count * tirx.const(2.0**-24, "float32"))
            near = tirx.Select(near >= _bits(HALF_END), _bits(INFINITY), near)
            near = tirx.Select(size < _bits(HALF_NORMAL), small, near)
        rounded = tirx.reinterpret("float32", near | (bits & _bits(SIGN)))
        return tirx.Select(size > _bits(INFINITY), x, rounded)

    def compute(x: Any) -> Any:
        return te.compute(x.shape, lambda *at: element(x(*at)), name="rounding")

    return builder.emit(builder.call_te(compute, inputs[0], primfunc_name_hint="rounding"))


def _bits(value: int) -> Any:
    return tirx.const(value, "uint32")
