"""Gather: what TVM makes of it, but places that are known are counted from the start while it is imported.

TVM compiles and runs some functions for that, at each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto
from tvm import relax

from tuner.frontend.onnx_check import ModelError, node_name
from tuner.frontend.onnx_graph import OnnxGraph, attributes_of
from tuner.operators.constants import constant


def gather(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``. Raises ModelError for a known place that is not there."""
    data, places = inputs
    shape = graph.tensors[node.input[0]].shape
    axis = attributes_of(node).get("axis", 0) % len(shape)
    known = graph.constants.get(node.input[1])
    if known is not None:
        if known.size and not -shape[axis] <= known.min() <= known.max() < shape[axis]:
            raise ModelError(
                f"node {node_name(node)!r} (Gather) reads places {known.min()} to {known.max()} of "
                f"{shape[axis]}"
            )
        places = constant(np.where(known < 0, known + shape[axis], known).astype(known.dtype))
    else:
        zero, extent = (
            relax.const(number, graph.tensors[node.input[1]].dtype) for number in (0, shape[axis])
        )
        back = relax.op.add(places, extent)
        places = builder.emit(relax.op.where(relax.op.less(places, zero), back, places))
    return builder.emit(relax.op.take(data, places, axis))
