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

PASSING: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Expand", "Gather", "GatherElements", "Identity", "Reshape", "Squeeze"), (0,)),
    **dict.fromkeys(("Transpose", "Unsqueeze"), (0,)),
    **dict.fromkeys(("ArgMax", "ArgMin"), ()),
    "Where": (1, 2),
}
"""Operators whose results are no less than the least of these operands, or than zero."""


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
    """Places of an axis, of which negative ones count from its end."""
    if _never_negative(graph, node.input[1]):
        return places
    zero, behind = (relax.const(number, graph.tensors[node.input[1]].dtype) for number in (0, extent))
    back = relax.op.add(places, behind)
    return builder.emit(relax.op.where(relax.op.less(places, zero), back, places))


def _never_negative(graph: OnnxGraph, name: str) -> bool:
    """Whether all of a tensor comes from tables without negative numbers, or says where something is."""
    makers = {output: node for node in graph.nodes for output in node.output}
    seen, waiting = {""}, [name]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        known, node = graph.constants.get(name), makers.get(name)
        if known is not None:
            if known.size and known.min() < 0:
                return False
        elif node is None or node.op_type not in PASSING:
            return False
        else:
            waiting += [node.input[place] for place in PASSING[node.op_type]]
    return True
