"""Texts at the edges of a model, as the numbers that they stand for: no tensor of ours holds texts.

An input that is looked up in a table takes what the table has for the text. One of which a OneHotEncoder
makes columns takes its place among the categories, or -1 where it is none. An output that is looked up is the
number before, or the place of the text in its table. Tables stay in the file, for whoever calls it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

DOMAIN = "ai.onnx.ml"
FROM_TABLES = ("Gather", "ArrayFeatureExtractor")
KEEPING = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""What may happen to a text on its way out."""
MOVING = ("ArrayFeatureExtractor", "Concat", "Gather", "Slice", "Split")
"""What may happen to texts on their way in besides."""
LABELS = {
    **dict.fromkeys(("LinearClassifier", "SVMClassifier"), "classlabels_ints"),
    "TreeEnsembleClassifier": "classlabels_int64s",
}


def number(model: ModelProto) -> None:
    """Replace texts of inputs, outputs and classes by numbers, in place; others are refused later."""
    graph = model.graph
    ends = {value.name: value for value in graph.output if _is_text(value)}
    for value in graph.input:
        readers = [node for node in graph.node if value.name in node.input]
        made = {_made(node) for node in readers if _takes_texts(node)}
        if _is_text(value) and len(made) == 1 and (kind := made.pop()) and _alike(readers):
            value.type.tensor_type.elem_type = kind
            for node in readers:
                _pass(node)
    _places(model)
    if not ends:
        return
    places = set(_tables(model))
    for node in graph.node:
        names = {attribute.name for attribute in node.attribute}
        if node.domain == DOMAIN and node.op_type in LABELS and "classlabels_strings" in names:
            count = len(_attribute(node, "classlabels_strings"))
            _drop(node, "classlabels_strings")
            node.attribute.append(helper.make_attribute(LABELS[node.op_type], range(count)))
            places.add(node.output[0])
        elif node.op_type == "LabelEncoder" and node.output[0] in ends and (kind := _taken(node)):
            _pass(node)
            ends[node.output[0]].type.tensor_type.elem_type = kind
        elif node.input and node.input[0] in places and node.op_type in (*KEEPING, *FROM_TABLES):
            places.add(node.output[0])
            if node.op_type == "Cast":
                _pass(node)
    for name in places & ends.keys():
        ends[name].type.tensor_type.elem_type = TensorProto.INT64


def _places(model: ModelProto) -> None:
    """Let inputs that are texts be places among categories, in place, if nothing else becomes of them."""
    inputs = [value for value in model.graph.input if _is_text(value)]
    texts, encoders, casts = {value.name for value in inputs}, [], []
    for node in model.graph.node:
        read = [name in texts for name in node.input]
        if node.op_type == "OneHotEncoder" and any(read):
            encoders.append(node)
        elif node.op_type in (*KEEPING, *MOVING) and (
            all(read) if node.op_type == "Concat" else read[:1] == [True]
        ):
            texts.update(node.output)
            casts += [node] if node.op_type == "Cast" else []
        elif any(read):
            return
    said = [{each.name for each in node.attribute} for node in encoders]
    if not all("cats_strings" in names for names in said) or any(o.name in texts for o in model.graph.output):
        return
    for value in inputs:
        value.type.tensor_type.elem_type = TensorProto.INT64
    for node in encoders:
        count = len(_attribute(node, "cats_strings"))
        _drop(node, "cats_strings")
        node.attribute.append(helper.make_attribute("cats_int64s", range(count)))
    for node in casts:
        _pass(node)


def _is_text(value: ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.STRING)


def _tables(model: ModelProto) -> Iterator[str]:
    """Constants that were texts to look up, and are their places now."""
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            tensors[node.output[0]] = node.attribute[0].t
    for name, tensor in tensors.items():
        readers = [node for node in graph.node if name in node.input]
        looked_up = all(node.op_type in FROM_TABLES and node.input[0] == name for node in readers)
        if tensor.data_type == TensorProto.STRING and looked_up:
            places = np.arange(len(tensor.string_data)).reshape(tuple(tensor.dims))
            tensor.CopyFrom(numpy_helper.from_array(places, tensor.name))
            yield name


def _attribute(node: NodeProto, name: str) -> list[bytes]:
    return next(list(each.strings) for each in node.attribute if each.name == name)


def _drop(node: NodeProto, name: str) -> None:
    kept = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)


def _pass(node: NodeProto) -> None:
    """Let ``node`` hand on what it gets."""
    node.domain, node.op_type = "", "Identity"
    del node.attribute[:]


def _kind(node: NodeProto, which: str) -> int:
    """The type of a LabelEncoder's ``keys`` or ``values``; 0 where that is none."""
    names = {attribute.name: attribute for attribute in node.attribute}
    if f"{which}_tensor" in names:
        return int(names[f"{which}_tensor"].t.data_type)
    kinds = {"strings": TensorProto.STRING, "int64s": TensorProto.INT64, "floats": TensorProto.FLOAT}
    return next((kind for word, kind in kinds.items() if f"{which}_{word}" in names), 0)


def _takes_texts(node: NodeProto) -> bool:
    old = any(attribute.name == "classes_strings" for attribute in node.attribute)
    return node.op_type == "LabelEncoder" and (old or _kind(node, "keys") == TensorProto.STRING)


def _made(node: NodeProto) -> int:
    """The type of the numbers that a LabelEncoder of texts makes; 0 where it makes texts again."""
    kind = _kind(node, "values") or TensorProto.INT64
    return 0 if kind == TensorProto.STRING else kind


def _taken(node: NodeProto) -> int:
    """The type of the numbers that a LabelEncoder makes texts of; 0 where it takes texts."""
    kind = _kind(node, "keys") or TensorProto.INT64
    return 0 if kind == TensorProto.STRING else kind


def _alike(nodes: list[NodeProto]) -> bool:
    """Whether all look up the same table."""
    texts = {b"".join(sorted(each.SerializeToString() for each in node.attribute)) for node in nodes}
    return len(texts) == 1 and all(node.op_type == "LabelEncoder" for node in nodes)
