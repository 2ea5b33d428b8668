"""Operators that com.microsoft had before ONNX had them, as exporters of older operator sets write them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from compiler.passes.expand.microsoft.fused import Fused


def same(form: Fused) -> None:
    """The same inputs and attributes."""
    form.finish(form.add(form.node.op_type, list(form.node.input), **form.attributes))


def gather_nd(form: Fused) -> None:
    """GatherND with indices that may be int32."""
    places = form.add("Cast", [form.needed(1)], to=TensorProto.INT64)
    form.finish(form.add("GatherND", [form.needed(0), places]))


def pad(form: Fused) -> None:
    """Pad with widths that may be a row of a matrix, and a value that may be a vector."""
    widths = form.add("Reshape", [form.needed(1), form.constant(np.array([-1]))])
    value = [_scalar(form, form.given(2))] if form.given(2) else []
    form.finish(form.add("Pad", [form.needed(0), widths, *value], **form.attributes))


def counted(form: Fused) -> None:
    """Range, of numbers or vectors of one; by default in steps of one."""
    ends = [_scalar(form, form.needed(at)) for at in (0, 1)]
    step = form.constant(np.ones((), form.value(0).dtype)) if not form.given(2) else form.given(2)
    form.finish(form.add("Range", [*ends, _scalar(form, step)]))


def expanded(form: Fused) -> None:
    """ExpandDims: an Unsqueeze of one axis."""
    axis = int(form.value(1).reshape(()))
    form.finish(form.unsqueezed(form.needed(0), axis))


def _scalar(form: Fused, name: str) -> str:
    return form.add("Reshape", [name, form.constant(np.array([], np.int64))])
