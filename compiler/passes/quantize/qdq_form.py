"""Rewrite operators on bytes to QDQ form."""

from __future__ import annotations

import math

from onnx import ModelProto, NodeProto

from compiler.passes.quantize.operators import QLINEAR
from compiler.passes.quantize.qlinear import Expansion, Known


def to_qdq_form(model: ModelProto) -> None:
    """Write nodes on bytes in QDQ form, in place; unknown ones stay, and may be refused later.

    Raises ModelError for a node that lacks inputs or has something that QDQ form cannot say.
    """
    nodes = list(model.graph.node)
    if not any(_kind(node) in QLINEAR for node in nodes):
        return
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    for node in nodes:
        if node.op_type == "Constant" and any(a.name in ("value", "value_float") for a in node.attribute):
            sizes |= dict.fromkeys(node.output, math.prod(node.attribute[0].t.dims))
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    ranks = {tensor.name: len(tensor.dims) for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        if value.type.tensor_type.HasField("shape"):
            ranks[value.name] = len(value.type.tensor_type.shape.dim)
    known = Known(opset, sizes, ranks)
    del model.graph.node[:]
    for node in nodes:
        expand = QLINEAR.get(_kind(node))
        if expand is None:
            model.graph.node.append(node)
            continue
        form = Expansion(node, known)
        expand(form)
        model.graph.node.extend(form.nodes)


def _kind(node: NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
