"""Operators that com.microsoft had before ONNX had them, as exporters of older operator sets write them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tuner.frontend.microsoft.fused import Array, Fused

SINCE = {"GridSample": 16, "GatherND": 11, "Pad": 11, "Range": 11}
"""From which operator set on ONNX has them, too."""
TRILU_SINCE = 14


def same(form: Fused) -> None:
    """The same inputs and attributes."""
    _needs(form)
    form.finish(form.add(form.node.op_type, list(form.node.input), **form.attributes))


def gather_nd(form: Fused) -> None:
    """GatherND, whose indices may be int32."""
    _needs(form)
    places = form.add("Cast", [form.needed(1)], to=TensorProto.INT64)
    form.finish(form.add("GatherND", [form.needed(0), places]))


def pad(form: Fused) -> None:
    """Pad, whose widths may be a row of a matrix and whose value may be a vector."""
    _needs(form)
    widths = form.add("Reshape", [form.needed(1), form.constant(np.array([-1]))])
    value = [_scalar(form, form.given(2))] if form.given(2) else []
    form.finish(form.add("Pad", [form.needed(0), widths, *value], **form.attributes))


def counted(form: Fused) -> None:
    """Range, of numbers or vectors of one; by default in steps of one."""
    _needs(form)
    ends = [_scalar(form, form.needed(at)) for at in (0, 1)]
    step = form.constant(np.ones((), form.value(0).dtype)) if not form.given(2) else form.given(2)
    form.finish(form.add("Range", [*ends, _scalar(form, step)]))


def expanded(form: Fused) -> None:
    """ExpandDims: an Unsqueeze of one axis."""
    axis = int(form.value(1).reshape(()))
    form.finish(form.unsqueezed(form.needed(0), axis))


def triangle(form: Fused) -> None:
    """Trilu; by a mask where ONNX has none yet."""
    if form.opset >= TRILU_SINCE:
        same(form)
        return
    data = form.needed(0)
    rows, columns = (form.extent(data, axis) for axis in (-2, -1))
    above = int(form.value(1).reshape(())) if form.given(1) else 0
    whole = np.ones((rows, columns), bool)
    upper = bool(form.attributes.get("upper", 1))
    kept: Array = np.triu(whole, above) if upper else np.tril(whole, above)
    nothing = form.add("Sub", [data, data])
    form.finish(form.add("Where", [form.constant(kept), data, nothing]))


def _scalar(form: Fused, name: str) -> str:
    return form.add("Reshape", [name, form.constant(np.array([], np.int64))])


def _needs(form: Fused) -> None:
    least = SINCE.get(form.node.op_type, 0)
    if form.opset < least:
        form.refuse(f"needs operator set {least}: convert the model (onnx.version_converter.convert_version)")
