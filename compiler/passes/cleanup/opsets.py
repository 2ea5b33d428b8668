"""Bring models of older operator sets to newer ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper, version_converter

from compiler.ir.checks import ModelError, nested, node_name
from compiler.ir.names import fresh, names_of

SIXTH = 6
"""The first operator set for which onnx can infer shapes of nearly all operators."""
SCALES = 7
"""The first one with an Upsample of any axes."""
TYPES = dict(TensorProto.DataType.items())
RECURRENT = ("GRU", "LSTM", "RNN")
ALWAYS: dict[str, dict[str, Any]] = {
    "Concat": {"axis": 1},
    "Selu": {"alpha": 1.6732, "gamma": 1.0507},
}
"""What attributes were before the sixth set where a node does not say it."""


def raise_oldest(model: ModelProto) -> None:
    """Bring a model of the first operator sets to the sixth, in place, and Upsample to the seventh if that
    can be done. Raises ModelError for attributes that no set has."""
    entry = next((each for each in model.opset_import if each.domain in ("", "ai.onnx")), None)
    if entry is None or not 1 <= entry.version < SCALES:
        return
    if entry.version < SIXTH:
        _raise_nodes(model.graph)
        entry.version = SIXTH
    for node in _nodes(model.graph):
        if node.op_type in RECURRENT and node.output[0]:
            _put(node, output_sequence=1)  # without that, onnx does not infer the first result
    raise_opset(model, lambda node: SCALES if node.op_type == "Upsample" else 0)


def _nodes(graph: GraphProto) -> Iterable[NodeProto]:
    for node in graph.node:
        yield node
        for inner in nested(node):
            yield from _nodes(inner)


def _raise_nodes(graph: GraphProto) -> None:
    """Write the nodes of ``graph`` as the sixth set has them."""
    taken = set(names_of(graph))
    for node in graph.node:
        if node.domain not in ("", "ai.onnx"):
            continue
        for inner in nested(node):
            _raise_nodes(inner)
        said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        _take(node, "consumed_inputs")
        for name, value in ALWAYS.get(node.op_type, {}).items():
            if name not in said:
                _put(node, **{name: value})
        if node.op_type == "Reshape" and len(node.input) == 1 and "shape" in said:
            _take(node, "shape")
            name = fresh(f"{node.output[0]}/shape", taken)
            graph.initializer.append(numpy_helper.from_array(np.array(said["shape"], np.int64), name))
            node.input.append(name)
        if node.op_type == "Pad" and "paddings" in said:
            _take(node, "paddings")
            _put(node, pads=said["paddings"])
        if node.op_type in ("GlobalLpPool", "LpPool") and isinstance(said.get("p"), float):
            if not said["p"].is_integer():
                raise ModelError(
                    f"node {node_name(node)!r} ({node.op_type}) has p={said['p']}, which is no whole number"
                )
            _put(node, p=int(said["p"]))
        if node.op_type == "Cast" and isinstance(said.get("to"), bytes):
            kind = said["to"].decode(errors="replace")
            if kind not in TYPES:
                raise ModelError(f"node {node_name(node)!r} (Cast) makes {kind!r}, which is no type of onnx")
            _put(node, to=TYPES[kind])


def _take(node: NodeProto, name: str) -> None:
    left = [each for each in node.attribute if each.name != name]
    del node.attribute[:]
    node.attribute.extend(left)


def _put(node: NodeProto, **attributes: Any) -> None:
    for name, value in attributes.items():
        _take(node, name)
        node.attribute.append(helper.make_attribute(name, value))


def raise_opset(model: ModelProto, least: Callable[[NodeProto], int]) -> None:
    """Bring ``model`` to the set of operators that its nodes need by ``least``, in place, if it can."""
    wanted = max(map(least, model.graph.node), default=0)
    if any(each.domain in ("", "ai.onnx") and each.version >= wanted for each in model.opset_import):
        return
    if not wanted:
        return
    others = [node for node in model.graph.node if node.domain not in ("", "ai.onnx") and node.output]
    # The converter, which makes several copies, need not see tables of trees.
    kept = {node.output[0]: list(node.attribute) for node in others}
    for node in others:
        del node.attribute[:]
    # It raises what it likes; what cannot be read as it is, is refused by its operator.
    with suppress(Exception):
        model.CopyFrom(version_converter.convert_version(model, wanted))
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx") and node.output:
            node.attribute.extend(kept[node.output[0]])
