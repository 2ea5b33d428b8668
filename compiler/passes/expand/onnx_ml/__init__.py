"""Operators of ai.onnx.ml, as scikit-learn's and boosted trees' converters write them, in those of ONNX."""

from __future__ import annotations

from collections.abc import Callable

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from compiler.passes.expand.microsoft.fused import Fused
from compiler.passes.expand.onnx_ml import columns, linear, texts, trees, vectors

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


def least_opset(node: NodeProto) -> int:
    """The set of ONNX's operators that has all that ``node`` becomes; 0 for one of another domain."""
    return LEAST_OPSET if node.domain == DOMAIN else 0


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
