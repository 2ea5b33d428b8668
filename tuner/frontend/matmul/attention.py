"""Attentions in a graph: a product, what scales and masks it, a Softmax, and a product with values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from tuner.frontend.epilogue import Wiring
from tuner.frontend.matmul.operands import scale_of
from tuner.frontend.onnx_check import node_name
from tuner.frontend.onnx_graph import OnnxGraph, TensorInfo, attributes_of

SOFTMAX_OF_AN_AXIS = 13
"""Before this version Softmax was of all axes from one on."""
HIDING = -1e30
"""Scores that become this or less have no weight, whatever they were."""


@dataclass(frozen=True)
class Found:
    """An attention from its first product to its last; ``mask`` is added to ``factor`` times the scores.

    ``empty`` says what becomes of a row whose scores are all minus infinity: zeros, or NaN.
    """

    first: NodeProto
    last: NodeProto
    factor: float
    mask: str | None
    hidden: NodeProto | None
    empty: bool

    def mask_of(self, graph: OnnxGraph, nodes: list[NodeProto]) -> str | None:
        """The mask that is added; where scores are hidden by a condition, ``nodes`` get one that makes it."""
        if self.hidden is None:
            return self.mask
        condition, seen, hidden = self.hidden.input
        zero = graph.constant(f"{condition}/seen", np.zeros((), np.float32))
        values = [seen if seen in graph.constants else zero, hidden if hidden in graph.constants else zero]
        name = graph.fresh(f"{condition}/mask")
        graph.tensors[name] = TensorInfo(graph.tensors[condition].shape, graph.tensors[seen].elem_type)
        nodes.append(helper.make_node("Where", [condition, *values], [name], name=node_name(self.hidden)))
        return name


def attention_from(graph: OnnxGraph, wiring: Wiring, first: NodeProto) -> Found | None:
    """The attention that begins with a MatMul, None where that begins none."""
    factor, mask, hidden = 1.0, None, None
    shape, name = graph.tensors[first.output[0]].shape, first.output[0]
    while (node := wiring.only_reader(name)) is not None and node.op_type != "Softmax":
        scale = scale_of(graph, node)
        if scale is not None and scale[0] == name and mask is None and hidden is None:
            factor *= scale[1]
        elif node.op_type == "Add" and mask is None and hidden is None:
            mask = next((other for other in node.input if other != name), None)
            if mask is None or not _fits(graph, mask, shape):
                return None
        elif node.op_type == "Where" and mask is None and hidden is None and _hides(graph, node, name, shape):
            hidden = node
        else:
            return None
        name = node.output[0]
    if node is None or not _is_last_axis(graph, node):
        return None
    name, empty = _guarded(graph, wiring, node)
    last = wiring.only_reader(name)
    if last is None or last.op_type != "MatMul" or last.input[0] != name or last.input[1] == name:
        return None
    return Found(first, last, factor, mask, hidden, empty)


def _fits(graph: OnnxGraph, mask: str, shape: tuple[int, ...]) -> bool:
    """Whether a mask is broadcast to the scores, not they to it."""
    info = graph.tensors[mask]
    return info.dtype == "float32" and np.broadcast_shapes(info.shape, shape) == shape


def _hides(graph: OnnxGraph, node: NodeProto, name: str, shape: tuple[int, ...]) -> bool:
    """Whether a Where leaves some scores and makes the others have no weight."""
    condition, *values = node.input
    other = next((value for value in values if value != name), "")
    value = graph.constants.get(other)
    if name not in values or value is None or value.size != 1 or float(value.reshape(())) > HIDING:
        return False
    return bool(np.broadcast_shapes(graph.tensors[condition].shape, shape) == shape)


def _is_last_axis(graph: OnnxGraph, node: NodeProto) -> bool:
    rank = len(graph.tensors[node.input[0]].shape)
    axis = attributes_of(node).get("axis", -1 if graph.opset >= SOFTMAX_OF_AN_AXIS else 1)
    return bool(axis % rank == rank - 1)


def _guarded(graph: OnnxGraph, wiring: Wiring, softmax: NodeProto) -> tuple[str, bool]:
    """(the weights, whether a Where puts zeros into rows that are NaN)."""
    name = softmax.output[0]
    readers = {node.op_type: node for node in wiring.readers.get(name, ())}
    if name in wiring.outputs or readers.keys() != {"IsNaN", "Where"}:
        return name, False
    asked, where = readers["IsNaN"].output[0], readers["Where"]
    zero = graph.constants.get(where.input[1])
    if wiring.only_reader(asked) is not where or list(where.input) != [asked, where.input[1], name]:
        return name, False
    if zero is None or zero.any() or graph.tensors[where.output[0]].shape != graph.tensors[name].shape:
        return name, False
    return where.output[0], True
