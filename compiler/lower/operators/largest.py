"""TopK, by a function of ours (``kernels/operators/largest.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto
from tvm import relax

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.functions import Functions, name_of
from kernels.operators.largest import Largest, build_largest


def largest(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``. How many are wanted, the shape of the result says; they are in order in any case."""
    info, attributes = graph.tensors[node.input[0]], attributes_of(node)
    axis = attributes.get("axis", -1) % len(info.shape)
    kept = next(graph.tensors[name].shape[axis] for name in node.output if name)
    it = Largest(info.shape, axis, kept, info.dtype, not attributes.get("largest", 1))
    function = Functions().get(builder, name_of("largest", it), lambda name: build_largest(it, name))
    types = [relax.TensorType(it.out, dtype) for dtype in (info.dtype, "int64")]
    made = builder.emit(relax.call_tir(function, [inputs[0]], types))
    return [builder.emit(relax.TupleGetItem(made, place)) for place in range(2)]
