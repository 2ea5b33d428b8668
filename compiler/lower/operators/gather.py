"""Gather: what TVM makes of it, but places that are known are counted from the start while it is imported.

TVM compiles and runs some functions for that, at each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import NodeProto
from tvm import relax

from compiler.analysis.intervals import Intervals
from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.lower.operators.constants import constant


def gather(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``."""
    data, places = inputs
    shape = graph.tensors[node.input[0]].shape
    axis = attributes_of(node).get("axis", 0) % len(shape)
    known = graph.constants.get(node.input[1])
    if known is not None:
        places = constant(np.where(known < 0, known + shape[axis], known).astype(known.dtype))
    else:
        places = _from_the_start(builder, graph, node, places, shape[axis])
    return builder.emit(relax.op.take(data, places, axis))


def elements(builder: Any, graph: OnnxGraph, node: NodeProto, inputs: Sequence[Any]) -> Any:
    """See ``COMPUTED``: GatherElements."""
    data, places = inputs
    shape = graph.tensors[node.input[0]].shape
    axis = attributes_of(node).get("axis", 0) % len(shape)
    places = _from_the_start(builder, graph, node, places, shape[axis])
    return builder.emit(relax.op.gather_elements(data, places, axis))


def _from_the_start(builder: Any, graph: OnnxGraph, node: NodeProto, places: Any, extent: int) -> Any:
    """Places of an axis; negative ones count from its end."""
    if Intervals(graph).of(node.input[1])[0] >= 0:
        return places
    zero, behind = (relax.const(number, graph.tensors[node.input[1]].dtype) for number in (0, extent))
    back = relax.op.add(places, behind)
    return builder.emit(relax.op.where(relax.op.less(places, zero), back, places))
