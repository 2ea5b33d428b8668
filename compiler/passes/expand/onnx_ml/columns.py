"""What ai.onnx.ml does to the columns of a table before a model sees them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from compiler.passes.expand.microsoft.fused import Array, Fused


def floats(form: Fused, at: int = 0) -> str:
    """An input as float32, whatever numbers it has."""
    return form.add("Cast", [form.needed(at)], to=TensorProto.FLOAT)


def vector(form: Fused, name: str, default: float = 0.0) -> Array:
    """An attribute that is a number for each column, or one for all."""
    return np.asarray(form.attributes.get(name) or [default], np.float32)


def reduced(form: Fused, op: str, data: str, keepdims: int, axis: int = 1) -> str:
    """A reduction of one axis, which is an input of newer operators."""
    if form.opset >= (13 if op == "ReduceSum" else 18):
        return form.add(op, [data, form.constant(np.array([axis]))], keepdims=keepdims)
    return form.add(op, [data], axes=[axis], keepdims=keepdims)


def scaler(form: Fused) -> None:
    """Scaler."""
    moved = form.add("Sub", [floats(form), form.constant(vector(form, "offset"))])
    form.finish(form.add("Mul", [moved, form.constant(vector(form, "scale", 1.0))]))


def normalizer(form: Fused) -> None:
    """Normalizer of rows by the sum of magnitudes, or the length; rows of zeros stay."""
    norm, data = form.attributes.get("norm", b"MAX").decode(), floats(form)
    if norm not in ("L1", "L2"):
        form.refuse(f"has the norm {norm}; only L1 and L2 are supported")
    size = reduced(form, f"Reduce{norm}", data, keepdims=1)
    empty = form.add("Equal", [size, form.number(0.0)])
    form.finish(form.add("Div", [data, form.add("Where", [empty, form.number(1.0), size])]))


def imputer(form: Fused) -> None:
    """Imputer of floats: another number where one is missing, which NaN or a number says."""
    if "imputed_value_int64s" in form.attributes:
        form.refuse("replaces integers, which is not supported")
    data, missing = form.needed(0), float(form.attributes.get("replaced_value_float", 0.0))
    if np.isnan(missing):
        there = form.add("IsNaN", [data])
    else:
        there = form.add("Equal", [data, form.number(missing)])
    form.finish(form.add("Where", [there, form.constant(vector(form, "imputed_value_floats")), data]))


def one_hot(form: Fused) -> None:
    """OneHotEncoder of numbers: a 1 in the place of each, and zeros for others."""
    categories = form.attributes.get("cats_int64s")
    if not categories:
        form.refuse(
            "has categories that are texts, which no tensor of numbers holds; encode them before the model"
        )
    number = form.unsqueezed(form.add("Cast", [form.needed(0)], to=TensorProto.INT64), -1)
    same = form.add("Equal", [number, form.constant(np.asarray(categories, np.int64))])
    form.finish(form.add("Cast", [same], to=TensorProto.FLOAT))


def binarizer(form: Fused) -> None:
    """Binarizer: 1 above a threshold."""
    above = form.add("Greater", [form.needed(0), form.number(form.attributes.get("threshold", 0.0))])
    form.finish(form.add("Cast", [above], to=TensorProto.FLOAT))


def extractor(form: Fused) -> None:
    """ArrayFeatureExtractor: some columns."""
    flat = form.add("Reshape", [form.needed(1), form.constant(np.array([-1]))])
    data = form.needed(0)
    # A list is taken for a table of one row.
    table = form.unsqueezed(data, 0) if form.rank_known(data) == 1 else data
    form.finish(form.gathered(table, flat, "a column", axis=-1))


def vectorizer(form: Fused) -> None:
    """FeatureVectorizer: tables beside each other."""
    form.finish(form.add("Concat", [floats(form, at) for at in range(len(form.node.input))], axis=-1))


def _table(form: Fused, what: str) -> Array | None:
    """Numbers that a LabelEncoder has: ``keys``, ``values``."""
    said = form.attributes
    if f"{what}_tensor" in said:
        return np.asarray(numpy_helper.to_array(said[f"{what}_tensor"]))
    for kind, dtype in (("int64", np.int64), ("float", np.float32)):
        if f"{what}_{kind}s" in said:
            return np.asarray(said[f"{what}_{kind}s"], dtype)
    return None


def encoder(form: Fused) -> None:
    """LabelEncoder from numbers to numbers: the first key that is equal, a default for others."""
    keys, values = _table(form, "keys"), _table(form, "values")
    if keys is None or values is None or not {keys.dtype.kind, values.dtype.kind} <= {"i", "f"}:
        form.refuse("looks up texts, which no tensor of numbers holds; do that before or behind the model")
    if len(keys) != len(values):
        form.refuse("has tables that do not fit together")
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        form.refuse("looks up NaN, which is found by some versions of it alone")
    integers = values.dtype.kind == "i"
    other: Any = form.attributes.get(*(("default_int64", -1) if integers else ("default_float", -0.0)))
    if "default_tensor" in form.attributes:
        other = numpy_helper.to_array(form.attributes["default_tensor"])
    same = form.add("Equal", [form.unsqueezed(form.needed(0), -1), form.constant(keys)])
    # Behind the places of all keys is that of the default.
    count = len(keys)
    places = form.add("Where", [same, form.constant(np.arange(count)), form.constant(np.array(count))])
    place = reduced(form, "ReduceMin", places, keepdims=0, axis=-1)
    table = np.append(values, np.asarray(other, values.dtype).reshape(-1)[:1])
    form.finish(form.add("Gather", [form.constant(table), place]))
