"""Operators that ONNX defines by others, written as those: TVM has no converter for them, or a wrong one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.inliner import inline_selected_functions

DEFINED = {
    *("Attention", "Celu", "CenterCropPad", "GroupNormalization", "MeanVarianceNormalization"),
    *("RotaryEmbedding", "Swish"),
}
KEYS, MASK, PAST_KEYS = 1, 3, 4
"""Places of an Attention's operands."""


def expanded(model: ModelProto, constants: Mapping[str, npt.NDArray[np.generic]]) -> list[NodeProto]:
    """The nodes of ``model`` with the definitions of those in ``DEFINED`` in their place."""
    nodes = list(model.graph.node)
    wanted = sorted(DEFINED.intersection(node.op_type for node in nodes))
    if not wanted:
        return nodes
    # Without weights, which would be copied.
    inputs = [value for value in model.graph.input if value.name not in constants]
    inputs += [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in constants.items()
    ]
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    for node in list(nodes):
        if node.op_type in DEFINED:
            _say_defaults(node, opset)
        if node.op_type == "Attention" and len(node.input) > MASK and not node.input[MASK]:
            # The inliner wants a type of each operand before the last.
            place = nodes.index(node)
            nodes[place:place] = _everything(node)
    graph = helper.make_graph(nodes, "definitions", inputs, list(model.graph.output))
    bare = helper.make_model(graph, opset_imports=model.opset_import, ir_version=max(model.ir_version, 4))
    try:
        written = inline_selected_functions(bare, [("", name) for name in wanted], False, True)
    except RuntimeError:
        # A type that nothing tells: who reads on names the node.
        return nodes
    return list(written.graph.node)


def _everything(node: NodeProto) -> list[NodeProto]:
    """Nodes that make a mask of all keys, those of the past too, and give it to the Attention ``node``."""
    start = node.input[MASK] = f"{node.output[0]}/everything"
    keys = [name for name in (node.input[KEYS], *node.input[PAST_KEYS : PAST_KEYS + 1]) if name]
    counts = [f"{start}/keys{number}" for number in range(len(keys))]
    nodes = [
        helper.make_node("Shape", [name], [count], start=-2, end=-1)
        for name, count in zip(keys, counts, strict=True)
    ]
    one, seen = numpy_helper.from_array(np.ones(1, np.int64)), numpy_helper.from_array(np.ones((1, 1), bool))
    return [
        *nodes,
        helper.make_node("Add" if len(counts) > 1 else "Identity", counts, [f"{start}/count"]),
        helper.make_node("Constant", [], [f"{start}/one"], value=one),
        helper.make_node("Concat", [f"{start}/one", f"{start}/count"], [f"{start}/shape"], axis=0),
        helper.make_node("Constant", [], [f"{start}/seen"], value=seen),
        helper.make_node("Expand", [f"{start}/seen", f"{start}/shape"], [start]),
    ]


def _say_defaults(node: NodeProto, opset: int) -> None:
    """Write the attributes that are left out: definitions lose them."""
    said = {attribute.name for attribute in node.attribute}
    for name, attribute in onnx.defs.get_schema(node.op_type, opset).attributes.items():
        if name not in said and attribute.default_value.type:
            node.attribute.append(attribute.default_value)
