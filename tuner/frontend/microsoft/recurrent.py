"""DynamicQuantizeLSTM: an LSTM whose data and states become bytes as they come.

It is ONNX's LSTM with the numbers that its bytes stand for: the data is rounded to 256 steps before it, and a
mark has the states rounded so before each step's product. Sums of floats are then what sums of bytes times
their scales are.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tuner.frontend.microsoft.fused import Array, Fused
from tuner.frontend.onnx_check import check_size
from tuner.frontend.own_nodes import ROUNDED_STATES

SCALES = 8
"""The place of the first scale: of the weights, their zero point, and the same of the recurrent ones."""
PEEPHOLES = 7


def lstm(form: Fused) -> None:
    """The LSTM and what rounds its data."""
    weights, states = (_real(form, at, SCALES + 2 * number) for number, at in enumerate((1, 2)))
    operands = [_rounded(form, form.needed(0)), form.constant(weights), form.constant(states)]
    operands += [form.given(at) for at in range(3, PEEPHOLES + 1)]
    count = len(form.node.output)
    made = form.add_all("LSTM", operands, 3, **form.attributes)[:count]
    form.nodes[-1].metadata_props.add(key=ROUNDED_STATES)
    for place, name in enumerate(made):
        form.finish(name, place)


def _rounded(form: Fused, data: str) -> str:
    """What is left of ``data`` in bytes."""
    quanta, scale, zero = form.add_all("DynamicQuantizeLinear", [data], 3)
    wide, middle = (form.add("Cast", [name], to=TensorProto.FLOAT) for name in (quanta, zero))
    return form.add("Mul", [form.add("Sub", [wide, middle]), scale])


def _real(form: Fused, at: int, scale_at: int) -> Array:
    """What the bytes of input ``at`` (directions, inputs, outputs) stand for, as LSTM has its weights."""
    quanta, scale, zero = form.value(at), form.value(scale_at), form.value(scale_at + 1)
    if quanta.ndim != 3 or quanta.dtype not in (np.int8, np.uint8):
        form.refuse(f"has an input {at} that is no array of three axes of bytes")
    directions, _, outputs = quanta.shape
    allowed = ((directions,), (directions, 1), (directions, outputs))
    if scale.shape not in allowed or zero.shape != scale.shape:
        form.refuse(f"has a scale or a zero point that does not go with input {at}")
    check_size(4 * quanta.size, f"the weight of node {form.node.name!r}", quanta.shape)
    scale, zero = (each.reshape(directions, 1, -1).astype(np.float32) for each in (scale, zero))
    real: Array = np.ascontiguousarray(((quanta - zero) * scale).transpose(0, 2, 1), np.float32)
    return real
