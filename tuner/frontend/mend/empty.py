"""Tensors without elements: TVM's virtual machine loads no such constants, and its reductions write nothing
where there is nothing to reduce."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from tuner.frontend.mend.writer import Writer

OF_NOTHING = {
    "ReduceL1": 0.0,
    "ReduceL2": 0.0,
    "ReduceLogSum": -inf,
    "ReduceLogSumExp": -inf,
    "ReduceMax": -inf,
    "ReduceMean": 0.0,
    "ReduceMin": inf,
    "ReduceProd": 1.0,
    "ReduceSum": 0.0,
    "ReduceSumSquare": 0.0,
}
"""What ONNX says of a reduction over no elements; of the mean onnxruntime says so."""


def joined(writer: Writer) -> bool:
    """A Concat without them is the same: torch's shapes that are computed leave them behind."""
    names = writer.node.input
    full = [name for name in names if name not in writer.graph.constants or writer.graph.constants[name].size]
    if not full or len(full) == len(names):
        return False
    if len(full) == 1:
        writer.finish("Identity", full[0])
    else:
        writer.finish("Concat", *full, **writer.attributes)
    return True


def reduced(writer: Writer) -> bool:
    """A reduction over no elements is a constant: of integers the type's own limit for an infinity."""
    out = writer.graph.tensors[writer.node.output[0]]
    if prod(writer.info(0).shape) or not prod(out.shape):
        return False
    number, kind = OF_NOTHING[writer.node.op_type], np.dtype(out.dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        number = int(min(max(number, limits.min), limits.max))
    value = np.full(out.shape, number > 0 if kind.kind == "b" else number).astype(kind)
    writer.finish("Identity", writer.constant(value))
    return True
