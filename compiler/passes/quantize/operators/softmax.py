"""Softmax has no integer kernel: what has it of bytes is written as one of floats, which is left to TVM."""

from __future__ import annotations

from compiler.passes.quantize.forms import Forms
from compiler.passes.quantize.qlinear import MICROSOFT, PER_AXIS_OPSET, Expansion, unary


def _softmax(form: Expansion) -> None:
    # Before operator set 13 it is over all axes from ``axis`` on, which the model's own set decides.
    older = form.attributes.pop("opset", form.opset) < PER_AXIS_OPSET
    if older != (form.opset < PER_AXIS_OPSET) and form.attributes.get("axis") != -1:
        form.refuse("is of another operator set than the model")
    unary("Softmax")(form)


FORMS = Forms(qlinear={f"{MICROSOFT}.QLinearSoftmax": _softmax})
