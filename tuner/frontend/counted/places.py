"""Which elements of a line of truths hold, and how many."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tuner.frontend.counted.state import AXES_AS_INPUTS, State


def compacted(state: State, truths: str) -> str:
    """The places of a line that are true, as many as it has room for: what is left over is 0."""
    (extent,) = state.info(truths).shape
    found = state.add("NonZero", [truths], room=(1, extent))
    line = state.add("Reshape", [found, state.constant(np.array([extent]))])
    return not_below(state, line)


def not_below(state: State, name: str, output: str = "") -> str:
    """Zeros in the place of what is negative, as ``output``; its name."""
    zero = state.constant(np.array(0))
    operands = [state.add("Less", [name, zero]), zero, name]
    if not output:
        return state.add("Where", operands)
    state.write("Where", operands, [output])
    return output


def how_many(state: State, truths: str) -> str:
    """How many are true, int64 of one element."""
    numbers = state.add("Cast", [truths], to=TensorProto.INT64)
    flat = state.add("Reshape", [numbers, state.constant(np.array([-1]))])
    if state.opset >= AXES_AS_INPUTS:
        return state.add("ReduceSum", [flat, state.constant(np.array([0]))], keepdims=1)
    return state.add("ReduceSum", [flat], axes=[0], keepdims=1)
