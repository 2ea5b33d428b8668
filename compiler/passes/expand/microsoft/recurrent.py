"""DynamicQuantizeLSTM: an LSTM that makes bytes of data and states as they come.

It is ONNX's LSTM with whole numbers for weights, and a mark that says how large one is, and that the data
before their product and the states before each step's are rounded (``compiler/passes/legalize/whole.py``).
"""

from __future__ import annotations

import json

import numpy as np

from compiler.ir.checks import check_size
from compiler.ir.own_nodes import UNITS
from compiler.passes.expand.microsoft.fused import Array, Fused

SCALES = 8
"""The place of the first scale: of the weights, their zero point, and the same of the recurrent ones."""
PEEPHOLES = 7
MOST_STATES = 32 * 1024
"""Sums of as many products of 9 bits fit int32."""


def lstm(form: Fused) -> None:
    """The LSTM with its mark."""
    (weights, units), (states, state_units) = (
        _whole(form, at, SCALES + 2 * number) for number, at in enumerate((1, 2))
    )
    operands = [form.needed(0), form.constant(weights), form.constant(states)]
    operands += [form.given(at) for at in range(3, PEEPHOLES + 1)]
    count = len(form.node.output)
    made = form.add_all("LSTM", operands, 3, **form.attributes)[:count]
    form.nodes[-1].metadata_props.add(key=UNITS, value=json.dumps([units, state_units]))
    for place, name in enumerate(made):
        form.finish(name, place)


def _whole(form: Fused, at: int, scale_at: int) -> tuple[Array, list[list[float]]]:
    """Input ``at`` (directions, inputs, outputs) less its zero point, as LSTM has its weights.

    Besides, what one is worth of each direction and output.
    """
    quanta, scale, zero = form.value(at), form.value(scale_at), form.value(scale_at + 1)
    if quanta.ndim != 3 or quanta.dtype not in (np.int8, np.uint8):
        form.refuse(f"has an input {at} that is no array of three axes of bytes")
    directions, inputs, outputs = quanta.shape
    if inputs > MOST_STATES:
        form.refuse(f"has sums of {inputs} products in input {at}; at most {MOST_STATES} are supported")
    allowed = ((directions,), (directions, 1), (directions, outputs))
    if scale.shape not in allowed or zero.shape != scale.shape:
        form.refuse(f"has a scale or a zero point that does not go with input {at}")
    if any(np.ptp(each) for each in zero):
        form.refuse(f"has several zero points for a direction of input {at}")
    check_size(4 * quanta.size, f"the weight of node {form.node.name!r}", quanta.shape)
    scale, zero = (each.reshape(directions, 1, -1).astype(np.float32) for each in (scale, zero))
    whole: Array = np.ascontiguousarray((quanta - zero).transpose(0, 2, 1), np.float32)
    return whole, np.broadcast_to(scale, (directions, 1, outputs))[:, 0].tolist()
