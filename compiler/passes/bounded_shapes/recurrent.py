"""LSTM, GRU and RNN: as many steps as count."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto

from compiler.ir.graph import attributes_of
from compiler.passes.bounded_shapes.state import ALONG, Axes, State

LENGTHS = 4


def recurrent(state: State, node: NodeProto) -> Axes:
    """Each row gets its number of steps, unless it has one; what the node gives for other steps is zeros."""
    data, first = node.input[0], bool(attributes_of(node).get("layout", 0))
    counted, time = state.axes_of(data), 1 if first else 0
    if set(counted) != {time} or any(map(state.axes_of, node.input[1:])):
        state.refuse(ALONG)
    # All steps are quantized together: zeros do not widen their range.
    inputs = {0: state.masked(data, 0)}
    if len(node.input) <= LENGTHS or not node.input[LENGTHS]:
        batch = state.info(data).shape[0 if first else 1]
        number = state.add("Cast", [state.count(counted[time])], to=TensorProto.INT32)
        inputs[LENGTHS] = state.add("Expand", [number, state.constant(np.array([batch]))])
    state.like(node, inputs)
    if not node.output[0]:
        return {}
    state.fills[node.output[0]] = 0
    return {1 if first else 0: counted[time]}
