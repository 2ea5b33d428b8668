"""Linear models of ai.onnx.ml, and what follows the scores of any model there."""

from __future__ import annotations

import numpy as np

from compiler.passes.expand.microsoft.fused import Array, Fused
from compiler.passes.expand.onnx_ml.columns import floats

AFTER = {"NONE": "", "LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}


def after(form: Fused, scores: str) -> str:
    """The scores after their ``post_transform``."""
    name = form.attributes.get("post_transform", b"NONE").decode()
    if name not in AFTER:
        form.refuse(f"has the post_transform {name}, which is not supported")
    if not AFTER[name]:
        return scores
    return form.add(AFTER[name], [scores], **({"axis": 1} if name == "SOFTMAX" else {}))


def labels(form: Fused) -> Array:
    """The numbers of the classes; raises ModelError where they are texts."""
    found = form.attributes.get("classlabels_ints") or form.attributes.get("classlabels_int64s")
    if not found:
        form.refuse("has classes that are texts; only numbers are supported (sklearn: encode the labels)")
    return np.asarray(found, np.int64)


def classified(form: Fused, scores: str, classes: Array) -> None:
    """Finish a classifier of a score for each class: the class of the greatest, and all."""
    place = form.add("ArgMax", [scores], axis=1, keepdims=0)
    form.finish(form.add("Gather", [form.constant(classes), place]))
    form.finish(after(form, scores), 1)


def _scores(form: Fused, rows: int) -> str:
    weights = np.asarray(form.attributes.get("coefficients", ()), np.float32)
    if rows < 1 or weights.size % rows:
        form.refuse(f"has {weights.size} coefficients for {rows} results")
    product = form.add("MatMul", [floats(form), form.constant(weights.reshape(rows, -1).T.copy())])
    shift = np.asarray(form.attributes.get("intercepts") or [0.0], np.float32)
    return form.add("Add", [product, form.constant(shift)])


def regressor(form: Fused) -> None:
    """LinearRegressor."""
    form.finish(after(form, _scores(form, form.attributes.get("targets", 1))))


def classifier(form: Fused) -> None:
    """LinearClassifier with a row of coefficients for each class."""
    classes = labels(form)
    if len(form.attributes.get("intercepts") or classes) != len(classes):
        form.refuse("has fewer scores than classes, which is not supported")
    classified(form, _scores(form, len(classes)), classes)
