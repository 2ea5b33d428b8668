"""Support vector machines of ai.onnx.ml that give a number."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tuner.frontend.classical.columns import floats, reduced
from tuner.frontend.microsoft.fused import Array, Fused


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
