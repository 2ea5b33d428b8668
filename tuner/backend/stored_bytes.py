"""Tensors of integers in Relax, and what is computed between them: NHWC where they have four axes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

from tvm import relax

from compiler.ir.graph import Array
from compiler.lower.operators.constants import constant
from compiler.lower.operators.functions import Functions
from kernels.int8.quantization import Quantization
from kernels.layout import NCHW, NHWC, stored_shape
from kernels.operators.int8.base import QOperator, stored
from kernels.operators.int8.border import build_dequantize, build_dequantize_sums, build_quantize
from kernels.operators.int8.dynamic import build_dynamic_quantize
from kernels.operators.int8.relayout import build_qrelayout
from kernels.target import Target
from kernels.workload.qconv2d import LIMITS
from tuner.backend.byte_formulas import formula_of

BYTES = ("int8", "uint8")


class ByteTensors:
    """Integer tensors with four axes, in the layouts that were made or asked for.

    Between floats and integers, and element by element, are functions of ours where sizes are ``known``, else
    formulas, which loops compute.
    """

    def __init__(self, target: Target, threads: int, builder: Any, known: bool = True) -> None:
        self._target, self._threads, self._builder, self._known = target, threads, builder, known
        self._functions = Functions()
        self._values: dict[str, dict[str, Any]] = {}

    def names(self) -> Collection[str]:
        """The tensors that there are."""
        return self._values.keys()

    def has(self, name: str, layout: str) -> bool:
        """Whether ``name`` lies in ``layout`` already."""
        return layout in self._values.get(name, {})

    def put(self, name: str, layout: str, value: Any) -> None:
        """Keep ``value`` as what ``name`` is in ``layout``."""
        self._values.setdefault(name, {})[layout] = value

    def get(self, name: str, layout: str) -> Any:
        """Tensor ``name`` in ``layout``, NCHW or NHWC."""
        there = self._values[name]
        if layout not in there:
            there[layout] = self._turned(there[NCHW if layout == NHWC else NHWC], layout)
        return there[layout]

    def operator(self, what: QOperator, values: Sequence[Any]) -> Any:
        """The stored result of ``what`` for stored ``values``."""
        formula = None if self._known else formula_of(what, values)
        if formula is not None:
            return self._builder.emit(formula)
        arguments = [*values, *map(relax.const, what.constants())]
        name = f"tilefleet_{type(what).__name__.lower()}_{what.key}"

        def make(name: str) -> Any:
            return what.build(self._target, self._threads, name)

        return self._call(name, make, arguments, stored(what.out_shape), what.result_dtype)

    def quantize(self, value: Any, shape: tuple[int, ...], code: Quantization) -> Any:
        """Floats stored as ``shape`` as bytes in the same order."""
        if not self._known:
            return self._builder.emit(quantized(value, code))
        return self._border("quantize", build_quantize, value, shape, code, code.dtype)

    def dynamic(self, value: Any, shape: tuple[int, ...]) -> list[Any]:
        """Floats of ``shape`` as bytes in the same order, their step and their zero point."""
        elements = prod(shape)

        def make(name: str) -> Any:
            return build_dynamic_quantize(elements, self._target, self._threads, name)

        function = self._functions.get(self._builder, f"tilefleet_dynamic_quantize_{elements}", make)
        flat = self._builder.emit(relax.op.reshape(value, (elements,)))
        kinds = (((elements,), "uint8"), ((), "float32"), ((), "uint8"))
        types = [relax.TensorType(each, dtype) for each, dtype in kinds]
        made = self._builder.emit(relax.call_tir(function, [flat], types))
        results = [self._builder.emit(relax.TupleGetItem(made, place)) for place in range(len(types))]
        return [self._builder.emit(relax.op.reshape(results[0], shape)), *results[1:]]

    def dequantize(self, value: Any, shape: tuple[int, ...], code: Quantization) -> Any:
        """Bytes stored as ``shape`` as floats in the same order."""
        if not self._known:
            whole = relax.op.subtract(relax.op.astype(value, "int32"), relax.const(code.zero, "int32"))
            return self._builder.emit(
                relax.op.multiply(relax.op.astype(whole, "float32"), relax.const(code.scale, "float32"))
            )
        return self._border("dequantize", build_dequantize, value, shape, code, "float32")

    def dequantize_sums(self, value: Any, shape: tuple[int, ...], scales: Array) -> Any:
        """int32 sums stored as ``shape`` as floats in the same order; channels are the last axis."""
        if not self._known:
            whole = relax.op.astype(value, "float32")
            return self._builder.emit(relax.op.multiply(whole, constant(scales)))
        name = "_".join(map(str, ["tilefleet", "dequantize", "sums", scales.size, *shape]))

        def make(name: str) -> Any:
            return build_dequantize_sums(shape, scales.size, self._target, self._threads, name)

        return self._call(name, make, [value, constant(scales)], shape, "float32")

    def _border(
        self,
        word: str,
        build: Callable[..., Any],
        value: Any,
        shape: tuple[int, ...],
        code: Quantization,
        dtype: str,
    ) -> Any:
        scale = code.scale.hex().translate(str.maketrans(".+-", "_pm"))
        zero = f"{code.zero}".replace("-", "m")
        name = "_".join(map(str, ["tilefleet", word, code.dtype, scale, zero, *shape]))

        def make(name: str) -> Any:
            return build(shape, code, self._target, self._threads, name)

        return self._call(name, make, [value], shape, dtype)

    def _turned(self, value: Any, layout: str) -> Any:
        """``value``, which lies in the other of NCHW and NHWC, in ``layout``."""
        extents = [int(extent) for extent in self._builder.normalize(value).ty.shape.values]
        dtype = str(value.ty.dtype.dtype)
        n, c, h, w = extents if layout == NHWC else (extents[0], extents[3], extents[1], extents[2])
        shape = stored_shape(layout, (n, c, h, w))
        if c == 1 or h * w == 1:
            return self._builder.emit(relax.op.reshape(value, shape))
        if dtype not in BYTES:
            axes = [0, 2, 3, 1] if layout == NHWC else [0, 3, 1, 2]
            return self._builder.emit(relax.op.permute_dims(value, axes))
        name = "_".join(map(str, ["tilefleet", "bytes", "to", layout, dtype, n, c, h, w]))

        def make(name: str) -> Any:
            return build_qrelayout((n, c, h, w), layout == NHWC, dtype, self._target, self._threads, name)

        return self._call(name, make, [value], shape, dtype)

    def _call(
        self, name: str, make: Callable[[str], Any], values: list[Any], shape: tuple[int, ...], dtype: str
    ) -> Any:
        function = self._functions.get(self._builder, name, make)
        return self._builder.emit(relax.call_tir(function, values, relax.TensorType(shape, dtype)))


def quantized(value: Any, code: Quantization) -> Any:
    """The formula of ``kernels/operators/int8/border.py``."""
    low, high = (float(limit - code.zero) for limit in LIMITS[code.dtype])
    steps = relax.op.divide(value, relax.const(code.scale, "float32"))
    least, most = (relax.const(end, "float32") for end in (low, high))
    above = relax.op.where(relax.op.greater(steps, least), steps, least)  # NaN is not greater
    inside = relax.op.minimum(above, most)
    whole = relax.op.astype(relax.op.round(inside), "int32")
    return relax.op.astype(relax.op.add(whole, relax.const(code.zero, "int32")), code.dtype)
