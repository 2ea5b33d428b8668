"""Operators of ai.onnx.ml, as scikit-learn's and boosted trees' converters write them, in those of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from onnx import ModelProto, TensorProto, ValueInfoProto, helper, version_converter

from tuner.frontend.classical import columns, linear, texts, trees, vectors
from tuner.frontend.microsoft.fused import Fused

DOMAIN = texts.DOMAIN
FORMS: dict[str, Callable[[Fused], None]] = {
    "ArrayFeatureExtractor": columns.extractor,
    "Binarizer": columns.binarizer,
    "FeatureVectorizer": columns.vectorizer,
    "LabelEncoder": columns.encoder,
    "Imputer": columns.imputer,
    "LinearClassifier": linear.classifier,
    "LinearRegressor": linear.regressor,
    "Normalizer": columns.normalizer,
    "OneHotEncoder": columns.one_hot,
    "SVMClassifier": vectors.classifier,
    "SVMRegressor": vectors.regressor,
    "Scaler": columns.scaler,
    "TreeEnsemble": trees.ensemble,
    "TreeEnsembleClassifier": trees.classifier,
    "TreeEnsembleRegressor": trees.regressor,
}


LEAST_OPSET = 13
"""Of the operators that ours are written in."""


def raised(model: ModelProto) -> None:
    """Bring a model with such operators to a set of ONNX's that has all that they become, in place."""
    if any(each.domain in ("", "ai.onnx") and each.version >= LEAST_OPSET for each in model.opset_import):
        return
    if not any(node.domain == DOMAIN for node in model.graph.node):
        return
    ours = [node for node in model.graph.node if node.domain == DOMAIN and node.output]
    # The converter, which makes several copies, need not see tables of trees.
    kept = {node.output[0]: list(node.attribute) for node in ours}
    for node in ours:
        del node.attribute[:]
    # It raises what it likes; what cannot be read as it is, is refused by its operator.
    with suppress(Exception):
        model.CopyFrom(version_converter.convert_version(model, LEAST_OPSET))
    for node in model.graph.node:
        if node.domain == DOMAIN and node.output:
            node.attribute.extend(kept[node.output[0]])


def plain(model: ModelProto) -> None:
    """Let a model take and give tensors of numbers alone, in place, where it can.

    A ZipMap is left out: its maps from classes to numbers are the rows of what it is given.
    """
    outputs = {value.name: value for value in model.graph.output}
    for node in model.graph.node:
        if node.domain == DOMAIN and node.op_type == "ZipMap" and node.output[0] in outputs:
            value = outputs[node.output[0]]
            table = helper.make_tensor_value_info(value.name, TensorProto.FLOAT, None)
            value.CopyFrom(ValueInfoProto(name=value.name, type=table.type))
            node.domain, node.op_type = "", "Identity"
            del node.attribute[:]
    texts.number(model)
