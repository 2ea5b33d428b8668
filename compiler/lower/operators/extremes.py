"""ArgMax and ArgMin: a reduction to the extreme, and one to the first or last place where that is.

TVM's own reduction is of pairs, which no vectors compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto
from tvm import te, tirx

from compiler.ir.graph import OnnxGraph, attributes_of

LARGEST = 1 << 24
"""Up to here float32 has every whole number."""


def place(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``. A NaN is the extreme, as in onnx's reference."""
    attributes, shape = attributes_of(node), graph.tensors[node.input[0]].shape
    axis = attributes.get("axis", 0) % len(shape)
    last, extreme = attributes.get("select_last_index", 0), te.max if node.op_type == "ArgMax" else te.min
    kept = [*shape[:axis], *shape[axis + 1 :]]
    # Floats lie in vectors as wide as the data's; TVM makes its integers of 64 bits.
    number = "float32" if shape[axis] <= LARGEST else "float64"
    nowhere = tirx.const(0 if last else shape[axis] - 1, number)

    def compute(data: Any) -> Any:
        k, j = (te.reduce_axis((0, shape[axis]), name) for name in ("k", "j"))
        best = te.compute(kept, lambda *at: extreme(data(*at[:axis], k, *at[axis:]), axis=k), name="best")

        def found(*at: Any) -> Any:
            value = data(*at[:axis], j, *at[axis:])
            here = value.equal(best(*at))
            if "float" in str(value.ty.dtype):
                here = tirx.any(here, tirx.isnan(value))
            where = tirx.Select(here, j.var.astype(number), nowhere)
            return (te.max if last else te.min)(where, axis=j)

        first = te.compute(kept, found, name="place")
        out = graph.tensors[node.output[0]].shape
        keep = len(out) == len(shape)

        def result(*at: Any) -> Any:
            return first(*at[:axis], *at[axis + keep :]).astype("int64")

        return te.compute(out, result, name="result")

    return builder.emit(builder.call_te(compute, inputs[0], primfunc_name_hint=node.op_type.lower()))
