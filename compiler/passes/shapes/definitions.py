"""Expand operators by ONNX's own definitions, where TVM has no converter or a wrong one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, TypeProto, helper, numpy_helper
from onnx.inliner import inline_local_functions, inline_selected_functions

from compiler.ir.checks import node_name
from compiler.ir.own_nodes import NEEDS

DEFINED = {
    *("Attention", "CenterCropPad", "GroupNormalization", "MeanVarianceNormalization"),
    *("CausalConvWithState", "NegativeLogLikelihoodLoss", "RotaryEmbedding"),
    *("SoftmaxCrossEntropyLoss", "SwiGLU", "Swish"),
}
GUARDED = {"Attention": (6, 1, -2, 1, "nonpad_kv_seqlen"), "RotaryEmbedding": (3, 1, 0, 0, "a position")}
"""Operators of which a definition takes any whole numbers: which operand these are; of which axis of which
operand the extent, and so much more, is above them; and what they are."""
FORGETTING = {"STFT"}
"""For these operators onnx infers shapes as if attributes that are left out were zero."""
MOST_DEEP = 4
"""So many definitions by others that are defined by others."""
OWN = "tilefleet"
"""The domain of definitions while they are functions of a model."""


def expanded(model: ModelProto, constants: Mapping[str, npt.NDArray[np.generic]]) -> list[NodeProto]:
    """The nodes of ``model`` with the definitions of those in ``DEFINED`` in their place."""
    nodes = list(model.graph.node)
    for _ in range(MOST_DEEP):
        nodes, before = _expanded(model, nodes, constants), nodes
        if nodes is before:
            break
    return nodes


def _expanded(
    model: ModelProto, nodes: list[NodeProto], constants: Mapping[str, npt.NDArray[np.generic]]
) -> list[NodeProto]:
    """``nodes`` with definitions in the place of those that have one; themselves where none has."""
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    for node in nodes:
        if node.op_type in DEFINED or node.op_type in FORGETTING:
            _say_defaults(node, opset)
    wanted = sorted(DEFINED.intersection(node.op_type for node in nodes))
    if not wanted:
        return nodes
    nodes, before = [each for node in nodes for each in _guarded(node)], nodes
    # Without weights, which would be copied.
    inputs = [value for value in model.graph.input if value.name not in constants]
    inputs += [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in constants.items()
    ]
    graph = helper.make_graph(nodes, "definitions", inputs, list(model.graph.output))
    bare = helper.make_model(graph, opset_imports=model.opset_import, ir_version=max(model.ir_version, 4))
    try:
        _define_gaps(bare, opset)
        written = inline_selected_functions(
            inline_local_functions(bare), [("", name) for name in wanted], False, True
        )
    except RuntimeError:
        # A type that nothing tells: who reads on names the node.
        return before
    return _for_no_heads(_named(list(written.graph.node), nodes), nodes)


def _named(written: list[NodeProto], nodes: list[NodeProto]) -> list[NodeProto]:
    """``written`` with the names of those of ``nodes`` that they stand for, in their order."""
    names = iter([(node_name(node), {name for name in node.output if name}) for node in nodes])
    name, open_outputs = next(names)
    for node in written:
        while not open_outputs:
            name, open_outputs = next(names, (name, {""}))
        node.name = node.name or name
        open_outputs -= set(node.output)
    return written


def _for_no_heads(written: list[NodeProto], nodes: list[NodeProto]) -> list[NodeProto]:
    """``written`` for an Attention without heads: its definition divides by their number, and says it in the
    shapes of reshapes, where 0 means another size."""
    outputs = {name for node in nodes for name in node.output}
    made: list[NodeProto] = []
    for node in written:
        if not outputs.intersection(node.output) and len(node.input) > 1:
            by = node.input[1]
            if node.op_type in ("Div", "Mod") and by.startswith("KVNumHeads"):
                one, least = f"{node.output[0]}/one", f"{node.output[0]}/by"
                value = numpy_helper.from_array(np.ones(1, np.int64))
                made.append(helper.make_node("Constant", [], [one], name=node.name, value=value))
                made.append(helper.make_node("Max", [by, one], [least], name=node.name))
                node.input[1] = least
            elif node.op_type == "Reshape" and by.startswith(("KAttentionShape", "VAttentionShape")):
                node.ClearField("attribute")
                node.attribute.append(helper.make_attribute("allowzero", 1))
        made.append(node)
    return made


def _guarded(node: NodeProto) -> list[NodeProto]:
    """``node``, behind nodes that end a run by numbers that are not among those of GUARDED."""
    place, of, axis, more, what = GUARDED.get(node.op_type, (len(node.input), 0, 0, 0, ""))
    if len(node.input) <= place or not node.input[place]:
        return [node]
    made: list[NodeProto] = []
    name = f"{node.output[0]}/{what}"

    def add(op: str, *inputs: str, **attributes: Any) -> str:
        output = f"{name}{len(made)}"
        made.append(helper.make_node(op, inputs, [output], name=node_name(node), **attributes))
        return output

    def number(value: int) -> str:
        return add("Constant", value=numpy_helper.from_array(np.array(value)))

    extent = add("Gather", add("Shape", node.input[of]), number(axis))
    numbers = add("Range", number(0), add("Add", extent, number(more)), number(1))
    guarded = NodeProto.FromString(node.SerializeToString())
    guarded.input[place] = add("Gather", numbers, node.input[place])
    needs = [f"node {node_name(node)!r} ({node.op_type})", what]
    made[-1].metadata_props.add(key=NEEDS, value=json.dumps(needs))
    return [*made, guarded]


def _define_gaps(bare: ModelProto, opset: int) -> None:
    """Make functions of ``bare`` of operators with operands left out: the inliner wants types of all."""
    gaps = [node for node in bare.graph.node if node.op_type in DEFINED and not all(node.input)]
    if not gaps:
        return
    found = onnx.shape_inference.infer_shapes(bare).graph
    types = {each.name: each.type for each in (*found.input, *found.value_info)}
    for number, node in enumerate(gaps):
        schema: Any = onnx.defs.get_schema(node.op_type, opset)  # its types know too little
        operands = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
        text = schema.get_context_dependent_function_with_opset_version(
            schema.since_version, node.SerializeToString(), operands
        )
        function = bare.functions.add()
        function.ParseFromString(text)
        function.domain, function.name = OWN, f"{node.op_type}{number}"
        del function.opset_import[:]
        function.opset_import.extend(bare.opset_import)
        node.domain, node.op_type = function.domain, function.name
    bare.opset_import.append(helper.make_opsetid(OWN, 1))


def _say_defaults(node: NodeProto, opset: int) -> None:
    """Write the attributes that are left out: definitions lose them, and shape inference does."""
    said = {attribute.name for attribute in node.attribute}
    for name, attribute in onnx.defs.get_schema(node.op_type, opset).attributes.items():
        if name not in said and attribute.default_value.type:
            node.attribute.append(attribute.default_value)
