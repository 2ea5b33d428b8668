"""Functions of single elements that TVM's operators compute other than ONNX says of NaN and infinities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import NodeProto
from tvm import relax, te, tirx

from compiler.ir.graph import OnnxGraph, attributes_of
from kernels.emit import tir


def sign(builder: Any, _: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``. That of NaN is NaN, that of a zero the zero."""

    def element(x: Any) -> Any:
        one = tirx.const(1, x.ty.dtype)
        above = tirx.Select(x > 0, one, x)
        return above if str(x.ty.dtype).startswith("uint") else tirx.Select(x < 0, -one, above)

    return _each(builder, node, inputs[0], element)


def negation(builder: Any, _: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``: Not."""
    return _each(builder, node, inputs[0], tir.negation)


def above(builder: Any, _: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``: ThresholdedRelu, zero for all that is not above the threshold, as NaN is."""
    threshold = attributes_of(node).get("alpha", 1.0)

    def element(x: Any) -> Any:
        return tirx.Select(x > tirx.const(threshold, x.ty.dtype), x, tirx.const(0, x.ty.dtype))

    return _each(builder, node, inputs[0], element)


def cast(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``. What integers do not hold, NaN among it, becomes what x86's instructions make of it,
    as onnxruntime has it: the least integer of 32 or 64 bits, of which smaller types have the lowest bits."""
    source, target = (graph.tensors[name].dtype for name in (node.input[0], node.output[0]))
    if "float" not in source or "int" not in target:
        return builder.emit(relax.op.astype(inputs[0], target))
    wide = "int64" if target in ("int64", "uint64", "uint32") else "int32"
    end = 2.0 ** (int(wide[3:]) - 1)

    def element(x: Any) -> Any:
        if source not in ("float32", "float64"):
            x = x.astype("float32")
        fits = tirx.all(x >= tirx.const(-end, x.ty.dtype), x < tirx.const(end, x.ty.dtype))
        whole = tirx.Select(fits, x.astype(wide), tirx.min_value(wide)).astype(target)
        if target != "uint64":
            return whole
        return tirx.Select(x >= tirx.const(end, x.ty.dtype), x.astype(target), whole)

    return _each(builder, node, inputs[0], element)


def _each(builder: Any, node: NodeProto, data: Any, element: Callable[[Any], Any]) -> Any:
    def compute(x: Any) -> Any:
        return te.compute(x.shape, lambda *at: element(x(*at)), name=node.op_type.lower())

    return builder.emit(builder.call_te(compute, data, primfunc_name_hint=node.op_type.lower()))
