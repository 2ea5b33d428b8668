"""Normalizations along the last axis as com.microsoft has them, with what is added before."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from compiler.passes.expand.microsoft.fused import Fused

SINCE = 17
"""From which operator set on ONNX has LayerNormalization."""


def _over_root(form: Fused, data: str, epsilon: float) -> str:
    """``data`` over the root of the mean of its squares."""
    mean = form.add(
        "Add", [form.reduced("ReduceMean", form.add("Mul", [data, data]), -1), form.number(epsilon)]
    )
    return form.add("Div", [data, form.add("Sqrt", [mean])])


def _layer(form: Fused, data: str, scale: str, shift: str, epsilon: float) -> str:
    if form.opset >= SINCE:
        inputs = [data, scale] + ([shift] if shift else [])
        return form.add("LayerNormalization", inputs, epsilon=epsilon)
    centred = form.add("Sub", [data, form.reduced("ReduceMean", data, -1)])
    result = form.add("Mul", [_over_root(form, centred, epsilon), scale])
    return form.add("Add", [result, shift]) if shift else result


def _last_axis(form: Fused) -> None:
    axis = form.attributes.get("axis", -1)
    if axis not in (-1, form.rank(form.needed(0)) - 1):
        form.refuse("normalizes other axes than the last")
    form.only(1)


def layer(form: Fused) -> None:
    """LayerNormalization, which onnxruntime's optimizer writes in operator sets that do not have it."""
    _last_axis(form)
    epsilon = form.attributes.get("epsilon", 1e-5)
    form.finish(_layer(form, form.needed(0), form.needed(1), form.given(2), epsilon))


def simplified(form: Fused) -> None:
    """SimplifiedLayerNormalization: no mean is subtracted."""
    _last_axis(form)
    result = _over_root(form, form.needed(0), form.attributes.get("epsilon", 1e-5))
    form.finish(form.add("Mul", [result, form.needed(1)]))


def _skipped(form: Fused, bias: int) -> str:
    """The sum that is normalized, which is the fourth output as well."""
    if any(form.node.output[1:3]):
        form.refuse("has the mean or the deviation as an output, which is not supported")
    data = form.add("Add", [form.needed(0), form.needed(1)])
    if form.given(bias):
        data = form.add("Add", [data, form.given(bias)])
    form.finish(data, 3)
    return data


def skip_layer(form: Fused) -> None:
    """SkipLayerNormalization: of a sum."""
    data = _skipped(form, 4)
    form.finish(_layer(form, data, form.needed(2), form.given(3), form.attributes.get("epsilon", 1e-12)))


def skip_simplified(form: Fused) -> None:
    """SkipSimplifiedLayerNormalization: of a sum, no mean is subtracted."""
    data = _over_root(form, _skipped(form, 3), form.attributes.get("epsilon", 1e-12))
    form.finish(form.add("Mul", [data, form.needed(2)]))


def embed_layer(form: Fused) -> None:
    """EmbedLayerNormalization: of the sum of embeddings of words, places and segments."""
    parts = [
        _rows_of(form, 2, 0),
        _rows_of(form, 3, 8) if form.given(8) else _first_rows(form, form.needed(3)),
    ]
    if form.given(1):
        parts.append(_rows_of(form, 4, 1))
    _embedded(form, parts, (form.needed(5), form.needed(6)), form.given(7))


def quantized_embed_layer(form: Fused) -> None:
    """QEmbedLayerNormalization: the same of tables of bytes, each with one scale and zero point."""

    def real(quanta: str, table: int) -> str:
        return form.add("DequantizeLinear", [quanta, form.needed(6 + table), form.needed(11 + table)])

    parts = [real(_rows_of(form, 2, 0), 2), real(_first_rows(form, form.needed(3)), 3)]
    if form.given(1):
        parts.append(real(_rows_of(form, 4, 1), 4))
    _embedded(form, parts, (real(form.needed(5), 5), real(form.needed(6), 6)), form.given(7))


def _embedded(form: Fused, parts: list[str], affine: tuple[str, str], mask: str) -> None:
    """The outputs: a layer of the sum of ``parts``, how many tokens ``mask`` has, and the sum."""
    data = parts[0]
    for part in parts[1:]:
        data = form.add("Add", [data, part])
    form.finish(data, 2)
    form.finish(_layer(form, data, *affine, form.attributes.get("epsilon", 1e-12)))
    if len(form.node.output) > 1 and form.node.output[1]:
        ones = form.add("Equal", [mask or form.needed(0), form.constant(np.ones((), np.int32))])
        if not mask:
            ones = form.add("And", [ones, form.constant(np.zeros((), bool))])
        counts = form.add("Cast", [ones], to=TensorProto.INT32)
        form.finish(form.reduced("ReduceSum", counts, 1, keepdims=0), 1)


def _rows_of(form: Fused, table: int, places: int) -> str:
    """Rows of an input; a run ends by one that is outside, as one is that counts from the end."""
    given, rows = form.add("Cast", [form.needed(places)], to=TensorProto.INT64), form.needed(table)
    nothing, outside = (form.constant(np.array(each)) for each in (0, form.extent(rows, 0)))
    place = form.add("Where", [form.add("Less", [given, nothing]), outside, given])
    return form.add("Gather", [rows, place])


def _first_rows(form: Fused, table: str) -> str:
    """As many rows as there are tokens."""
    count = form.add("Gather", [form.add("Shape", [form.needed(0)]), form.constant(np.array([1]))])
    start, axis = form.constant(np.array([0])), form.constant(np.array([0]))
    return form.add("Slice", [table, start, count, axis])
