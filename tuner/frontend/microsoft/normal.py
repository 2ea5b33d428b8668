"""Normalizations along the last axis as com.microsoft has them, with what is added before."""

from __future__ import annotations

import numpy as np

from tuner.frontend.microsoft.fused import Fused

SINCE = 17
"""From which operator set on ONNX has LayerNormalization."""
AXES_SINCE = 18
"""From which operator set on ReduceMean has its axes as an input."""


def _mean(form: Fused, data: str) -> str:
    if form.opset < AXES_SINCE:
        return form.add("ReduceMean", [data], axes=[-1])
    return form.add("ReduceMean", [data, form.constant(np.array([-1]))])


def _over_root(form: Fused, data: str, epsilon: float) -> str:
    """``data`` over the root of the mean of its squares."""
    mean = form.add("Add", [_mean(form, form.add("Mul", [data, data])), form.number(epsilon)])
    return form.add("Div", [data, form.add("Sqrt", [mean])])


def _layer(form: Fused, data: str, scale: str, shift: str, epsilon: float) -> str:
    if form.opset >= SINCE:
        inputs = [data, scale] + ([shift] if shift else [])
        return form.add("LayerNormalization", inputs, epsilon=epsilon)
    centred = form.add("Sub", [data, _mean(form, data)])
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
    ids = form.needed(0)
    data = form.add("Gather", [form.needed(2), ids])
    if form.given(8):
        places = form.add("Gather", [form.needed(3), form.given(8)])
    else:
        count = form.add("Gather", [form.add("Shape", [ids]), form.constant(np.array([1]))])
        start, axis = form.constant(np.array([0])), form.constant(np.array([0]))
        places = form.add("Slice", [form.needed(3), start, count, axis])
    data = form.add("Add", [data, places])
    if form.given(1):
        data = form.add("Add", [data, form.add("Gather", [form.needed(4), form.given(1)])])
    form.finish(data, 2)
    form.finish(_layer(form, data, form.needed(5), form.needed(6), form.attributes.get("epsilon", 1e-12)))
