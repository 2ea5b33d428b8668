"""Which operators, fusions, types and layouts there are to try, and models of some of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import onnx
from onnx import NodeProto, helper

from bench.special_values.branch import Branch
from bench.special_values.definition import defined
from bench.special_values.forms import FORMS
from bench.special_values.fusions import FUSIONS, IN_LAYOUTS
from bench.special_values.values import FILLED, NAMES, SPECIAL

FLOATS = {"float32": np.float32, "float16": np.float16}
EXACT, DEFAULT = "exact", "exact-integers"
_OF_INTEGERS = ("ArgM", "Cast ", "TopK 0 1", "TopK 1 1", "Quantize", "DynamicQuantizeLinear bytes")
_WINOGRAD = ("Conv 3x3", "Conv 3x3 s2", "Conv 5x5", "Conv 1-D")
_RECURRENT = ("LSTM", "LSTM clip", "GRU", "RNN", "RNN Relu")
_SINGLE = (*_RECURRENT, "Celu", "MeanVarianceNormalization", "Gelu", "Gelu tanh", "Mish", "LRN")
"""Operators that run in float32 alone, or overflow in other places in float16."""


@dataclass(frozen=True)
class Kind:
    """An operator with what follows it, in a type of floats; between convolutions of a ``layout``, or with
    Winograd where ``numerics`` are the default."""

    form: str
    fusion: str = "alone"
    dtype: str = "float32"
    layout: str = ""
    numerics: str = EXACT

    def __str__(self) -> str:
        more = [each for each in (self.layout, self.numerics) if each not in ("", EXACT)]
        return ", ".join((self.form, self.fusion, self.dtype, *more))

    @property
    def values(self) -> tuple[str, ...]:
        """The special values for which there is one right result."""
        if self.form in _RECURRENT:  # onnxruntime loses NaN in them, and turns infinities into numbers
            return tuple(name for name in NAMES if "nan" not in name and "inf" not in name)
        if self.form.startswith("ReduceProd"):  # the order of factors decides if it overflows
            return tuple(name for name in NAMES if "largest" not in name and name != "wide")
        if self.numerics == DEFAULT:
            return tuple(name for name in SPECIAL if name not in FILLED)
        return NAMES

    def branch(self, prefix: str) -> tuple[Branch, str]:
        """Its nodes, and the name of the result."""
        branch = Branch(prefix, FLOATS[self.dtype], np.random.default_rng(crc32(str(self).encode())))
        form = (IN_LAYOUTS if self.layout else FORMS)[self.form]
        return branch, FUSIONS[self.fusion](branch, form(branch))


def all_kinds(layouts: Sequence[str]) -> list[Kind]:
    """All that there are, with operators of images in ``layouts``."""
    elementwise = [fusion for fusion in FUSIONS if not fusion.startswith(("Reduce", "Softmax"))]
    kinds = []
    for form in FORMS:
        whole = form.startswith(_OF_INTEGERS) and not form.endswith("back")
        types = ["float32"] if form in _SINGLE or "Quantize" in form or "Scatter" in form else list(FLOATS)
        kinds += [
            Kind(form, fusion, dtype)
            for fusion in FUSIONS
            for dtype in types
            if fusion == "alone" or not whole
        ]
        if form in _WINOGRAD:
            kinds += [Kind(form, fusion, numerics=DEFAULT) for fusion in elementwise]
    kinds += [
        Kind(form, fusion, layout=each) for form in IN_LAYOUTS for fusion in elementwise for each in layouts
    ]
    return kinds


def models_of(
    kinds: Sequence[Kind],
) -> tuple[onnx.ModelProto, onnx.ModelProto, dict[Kind, Branch], list[str]]:
    """Returns a model with one branch and one output for each kind, in order; the model that defines the
    right results; the branches; and the names of the results."""
    branches, results = {}, []
    for number, kind in enumerate(kinds):
        branches[kind], result = kind.branch(f"b{number}")
        results.append(result)
    model = model_of(
        [node for branch in branches.values() for node in branch.nodes], branches.values(), results
    )
    nodes = [node for branch in branches.values() for node in defined(branch)]
    return model, model_of(nodes, branches.values(), results), branches, results


def model_of(
    nodes: Sequence[NodeProto], branches: Collection[Branch], results: Sequence[str]
) -> onnx.ModelProto:
    """A model of ``nodes`` with the inputs and constants of ``branches``."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(branch.dtype)), shape)
        for branch in branches
        for name, shape in branch.inputs.items()
    ]
    outputs = [helper.make_value_info(name, onnx.TypeProto()) for name in results]
    constants = [each for branch in branches for each in branch.constants]
    graph = helper.make_graph(nodes, "special", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    found = onnx.shape_inference.infer_shapes(model).graph.output
    for value, inferred in zip(model.graph.output, found, strict=True):
        value.CopyFrom(inferred)
    return model
