"""Support vector machines of ai.onnx.ml."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from compiler.passes.expand.microsoft.fused import Array, Fused
from compiler.passes.expand.onnx_ml.chances import chances
from compiler.passes.expand.onnx_ml.columns import floats, reduced
from compiler.passes.expand.onnx_ml.linear import after, labels


def _similar(form: Fused, data: str, vectors: Array) -> str:
    """The kernel of each row of ``data`` with each of ``vectors`` (vectors, columns): (rows, vectors)."""
    kind = form.attributes.get("kernel_type", b"LINEAR").decode()
    gamma, shift, degree = (*form.attributes.get("kernel_params", ()), 0.0, 0.0, 3.0)[:3]
    if kind == "RBF":
        # Of the differences: the products of (x - v)(x - v) would cancel.
        apart = form.add("Sub", [form.unsqueezed(data, 1), form.constant(vectors[None])])
        square = reduced(form, "ReduceSum", form.add("Mul", [apart, apart]), keepdims=0, axis=2)
        return form.add("Exp", [form.add("Mul", [square, form.number(-gamma)])])
    product = form.add("MatMul", [data, form.constant(np.ascontiguousarray(vectors.T))])
    if kind == "LINEAR":
        return product
    inner = form.add("Add", [form.add("Mul", [product, form.number(gamma)]), form.number(shift)])
    if kind not in ("POLY", "SIGMOID"):
        form.refuse(f"has the kernel {kind}, which is not known")
    return form.add("Tanh", [inner]) if kind == "SIGMOID" else form.add("Pow", [inner, form.number(degree)])


def regressor(form: Fused) -> None:
    """SVMRegressor, also the one that says whether something belongs to the one class (1) or not (-1)."""
    count, data = form.attributes.get("n_supports", 0), floats(form)
    factors = np.asarray(form.attributes.get("coefficients", ()), np.float32)
    vectors = np.asarray(form.attributes.get("support_vectors", ()), np.float32)
    if count < 1 or not vectors.size or vectors.size % count or len(factors) != count:
        form.refuse("has support vectors and coefficients that do not fit together")
    similar = _similar(form, data, vectors.reshape(count, -1))
    shift = np.asarray(form.attributes.get("rho") or [0.0], np.float32)[:1]
    score = form.add(
        "Add", [form.add("MatMul", [similar, form.constant(factors[:, None])]), form.constant(shift)]
    )
    if form.attributes.get("one_class", 0):
        inside = form.add("Cast", [form.add("Greater", [score, form.number(0.0)])], to=TensorProto.FLOAT)
        double = form.add("Mul", [inside, form.number(2.0)])
        score = form.add("Sub", [double, form.number(1.0)])
    form.finish(score)


def classifier(form: Fused) -> None:
    """SVMClassifier of scores: one for each pair of classes, and the class that most pairs choose."""
    classes, said = labels(form), form.attributes
    sizes = [int(size) for size in said.get("vectors_per_class", ())]
    total = sum(sizes)
    factors = np.asarray(said.get("coefficients", ()), np.float32)
    vectors = np.asarray(said.get("support_vectors", ()), np.float32)
    shifts = np.asarray(said.get("rho", ()), np.float32)
    count = len(classes)
    if len(sizes) != count or count < 2 or min(sizes) < 0 or not total or vectors.size % total:
        form.refuse("has support vectors and classes that do not fit together")
    pairs = [(low, high) for low in range(count) for high in range(low + 1, count)]
    if factors.size != (count - 1) * total or len(shifts) != len(pairs):
        form.refuse("has support vectors and coefficients that do not fit together")
    slopes, offsets = (np.asarray(said.get(name, ()), np.float32) for name in ("prob_a", "prob_b"))
    if len(slopes) != len(offsets) or len(slopes) not in (0, len(pairs)):
        form.refuse("has probabilities that do not fit its classes")
    factors, ends = factors.reshape(count - 1, total), np.cumsum([0, *sizes])
    # A column for each pair: the factors of both its classes' vectors.
    columns = np.zeros((total, len(pairs)), np.float32)
    votes = np.zeros((2, len(pairs), count), np.float32)
    for at, (low, high) in enumerate(pairs):
        for own, other in ((low, high - 1), (high, low)):
            columns[ends[own] : ends[own + 1], at] = factors[other, ends[own] : ends[own + 1]]
        votes[0, at, low], votes[1, at, high] = 1, 1
    similar = _similar(form, floats(form), vectors.reshape(total, -1))
    product = form.add("MatMul", [similar, form.constant(columns)])
    scores = form.add("Add", [product, form.constant(shifts)])
    for_low = form.add("Cast", [form.add("Greater", [scores, form.number(0.0)])], to=TensorProto.FLOAT)
    # Each pair that is not for the lower class is for the higher.
    more = form.add("MatMul", [for_low, form.constant(votes[0] - votes[1])])
    chosen = form.add("Add", [more, form.constant(votes[1].sum(axis=0))])
    place = form.add("ArgMax", [chosen], axis=1, keepdims=0)
    form.finish(form.add("Gather", [form.constant(classes), place]))
    if len(slopes):
        scores = chances(form, scores, pairs, slopes, offsets)
    elif count == 2:
        scores = form.add("Concat", [form.add("Neg", [scores]), scores], axis=1)
    form.finish(after(form, scores), 1)
