"""LRN over the channels (axis 1), in one loop nest that LLVM vectorises.

TVM's importer goes through a 3-D pool and a scalar ``powf`` an element. The exponent is usually 0.75, for
which two square roots do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from onnx import NodeProto
from tvm import te

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import OnnxGraph, attributes_of


def lrn(builder: Any, _: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``. Raises ModelError for a window of nothing."""
    attributes = attributes_of(node)
    size = attributes["size"]
    if size < 1:
        raise ModelError(
            f"node {node_name(node)!r} (LRN) has a window of {size} channels; at least 1 is needed"
        )
    alpha, beta = attributes.get("alpha", 1e-4), attributes.get("beta", 0.75)
    bias = attributes.get("bias", 1.0)
    before = (size - 1) // 2

    def normalise(x: Any) -> Any:
        channels = int(x.shape[1])

        def square(indices: Any, offset: int) -> Any:
            # Clamped and masked, not branched on: a branch would keep the inner loop scalar.
            at = indices[1] + offset
            inside = tvm.tirx.all(at >= 0, at < channels)
            near = x(indices[0], te.max(te.min(at, channels - 1), 0), *indices[2:])
            return tvm.tirx.Select(inside, near * near, tvm.tirx.const(0, x.dtype))

        def element(*indices: Any) -> Any:
            # Of a window, as large as its file likes, nothing is farther away than there are channels.
            first, *others = range(max(-before, 1 - channels), min(size - before, channels))
            total = square(indices, first)
            for offset in others:
                total = total + square(indices, offset)
            return x(*indices) / _power(total * (alpha / size) + bias, beta)

        return te.compute(x.shape, element, name="lrn")

    return builder.emit(builder.call_te(normalise, inputs[0], primfunc_name_hint="lrn"))


def _power(value: Any, exponent: float) -> Any:
    if exponent == 0.75:
        root = te.sqrt(value)
        return root * te.sqrt(root)
    return te.sqrt(value) if exponent == 0.5 else te.power(value, exponent)
