"""The distances of all rows to all others: nearest neighbours that are converted for onnxruntime."""

from __future__ import annotations

import numpy as np

from compiler.passes.expand.microsoft.fused import Fused

METRICS = ("euclidean", "sqeuclidean")
AXES_AS_INPUTS = 13
"""The version of ReduceSum that takes them so."""


def distances(form: Fused) -> None:
    """CDist."""
    metric = form.attributes.get("metric", b"sqeuclidean").decode()
    if metric not in METRICS:
        form.refuse(f"has the metric {metric!r}; there are {', '.join(METRICS)}")
    # Of the differences: the products of (x - y)(x - y) would cancel.
    apart = form.add("Sub", [form.unsqueezed(form.needed(0), 1), form.unsqueezed(form.needed(1), 0)])
    square = form.add("Mul", [apart, apart])
    if form.opset >= AXES_AS_INPUTS:
        total = form.add("ReduceSum", [square, form.constant(np.array([2]))], keepdims=0)
    else:
        total = form.add("ReduceSum", [square], axes=[2], keepdims=0)
    form.finish(form.add("Sqrt", [total]) if metric == "euclidean" else total)
