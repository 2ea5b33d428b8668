"""Find attentions: a product, its scale and mask, a Softmax, and a product with values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.graph import OnnxGraph, TensorInfo, attributes_of
from compiler.passes.contractions.operands import scale_of
from compiler.passes.epilogues.epilogue import Wiring

SOFTMAX_OF_AN_AXIS = 13
"""Before this version Softmax was of all axes from one on."""
HIDING = -1e30
"""Scores that become this or less have no weight, whatever they were."""


@dataclass(frozen=True)
class Found:
    """An attention from its first product to its last; ``mask`` is added to ``factor`` times the scores.

    ``empty`` says what becomes of a row where all scores are minus infinity: zeros, or NaN. Row i sees keys
    up to i + ``causal``, or all where that is None.
    """

    first: NodeProto
    last: NodeProto
    factor: float
    mask: str | None
    hidden: NodeProto | None
    empty: bool
    causal: int | None

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
    name, empty = _guarded(graph, wiring, node, mask)
    last = wiring.only_reader(name)
    if last is None or last.op_type != "MatMul" or last.input[0] != name or last.input[1] == name:
        return None
    causal = None
    if mask in graph.constants:
        mask, causal = _simplest(graph, mask, shape)
    return Found(first, last, factor, mask, hidden, empty, causal)


def _simplest(graph: OnnxGraph, mask: str, shape: tuple[int, ...]) -> tuple[str | None, int | None]:
    """A constant mask, which none need be where it changes nothing or hides later keys alone, and that."""
    value = graph.constants[mask]
    if not value.any():
        return None, None
    if value.shape[-2:] != shape[-2:] or value.size != shape[-2] * shape[-1]:
        return mask, None
    shown = value.reshape(shape[-2:]) == 0
    causal = int(shown[0].sum()) - 1
    later = np.arange(shape[-1]) > np.arange(shape[-2])[:, None] + causal
    only_those = (
        causal >= 0 and np.array_equal(shown, ~later) and value.reshape(shown.shape)[later].max() <= HIDING
    )
    return (None, causal) if only_those else (mask, None)


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


def _guarded(graph: OnnxGraph, wiring: Wiring, softmax: NodeProto, mask: str | None) -> tuple[str, bool]:
    """(the weights, whether a Where puts zeros into rows that see nothing)."""
    name = softmax.output[0]
    readers = {node.op_type: node for node in wiring.readers.get(name, ())}
    where = readers.pop("Where", None)
    if name in wiring.outputs or where is None or where.input[2] != name:
        return name, False
    condition, zero = where.input[0], graph.constants.get(where.input[1])
    if zero is None or zero.any() or graph.tensors[where.output[0]].shape != graph.tensors[name].shape:
        return name, False
    if readers:
        found = readers.keys() == {"IsNaN"} and list(readers["IsNaN"].output) == [condition]
        found = found and wiring.only_reader(condition) is where
    else:
        found = mask is not None and _asks_for_nothing(graph, wiring, condition, mask)
    return (where.output[0], True) if found else (name, False)


def _asks_for_nothing(graph: OnnxGraph, wiring: Wiring, condition: str, mask: str) -> bool:
    """Whether ``condition`` is true of the rows of ``mask`` that are all minus infinity."""
    if mask in graph.constants:
        rows = graph.constants[mask].max(-1, keepdims=True)
        return condition in graph.constants and np.array_equal(graph.constants[condition], np.isneginf(rows))
    equal = wiring.writers.get(condition)
    if equal is None or equal.op_type != "Equal":
        return False
    most = wiring.writers.get(equal.input[0])
    value = graph.constants.get(equal.input[1])
    if most is None or most.op_type != "ReduceMax" or most.input[0] != mask or value is None:
        return False
    shape = graph.tensors[mask].shape
    return bool(np.isneginf(value).all()) and graph.tensors[most.output[0]].shape == (*shape[:-1], 1)
