"""The transposes and factors around a matrix product, which it can take in."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from onnx import NodeProto

from tuner.frontend.epilogue import Wiring
from tuner.frontend.onnx_graph import OnnxGraph, attributes_of

Perm = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """``factor`` times the tensor ``name`` with its axes in the order ``perm``."""

    name: str
    perm: Perm
    factor: float = 1.0


def operand_of(graph: OnnxGraph, wiring: Wiring, name: str, written: Set[str]) -> Operand:
    """What the factor ``name`` of a product is made of, back to what is ``written`` by then."""
    perm, factor = tuple(range(len(graph.tensors[name].shape))), 1.0
    taken: list[NodeProto] = []
    while name not in written and (node := wiring.writers.get(name)) is not None:
        scale = _scale(graph, node)
        if scale is not None and wiring.only_reader(name) is not None:
            source, by = scale
            name, factor = source, factor * by
        elif node.op_type == "Transpose" and _only_products(wiring, name, taken):
            turned = tuple(_perm(graph, node)[axis] for axis in perm)
            if not _reads_lines(turned):
                break
            name, perm = node.input[0], turned
        else:
            break
        taken.append(node)
    return Operand(name, perm, factor)


def result_of(graph: OnnxGraph, wiring: Wiring, name: str) -> Operand:
    """What becomes of a product: the last tensor that it can write.

    In the order ``perm`` that is ``factor`` times the product.
    """
    order, factor = tuple(range(len(graph.tensors[name].shape))), 1.0
    while (node := wiring.only_reader(name)) is not None:
        scale = _scale(graph, node)
        if scale is not None and scale[0] == name:
            factor *= scale[1]
        elif node.op_type == "Transpose":
            turned = tuple(order[axis] for axis in _perm(graph, node))
            if turned[-1] != len(turned) - 1:
                break
            order = turned
        else:
            break
        name = node.output[0]
    return Operand(name, tuple(order.index(axis) for axis in range(len(order))), factor)


def _scale(graph: OnnxGraph, node: NodeProto) -> tuple[str, float] | None:
    """(tensor, number by which ``node`` multiplies it), where that is what it does."""
    if node.op_type not in ("Mul", "Div"):
        return None
    first, second = node.input
    if second not in graph.constants and node.op_type == "Mul":
        first, second = second, first
    value = graph.constants.get(second)
    if first in graph.constants or value is None or value.size != 1:
        return None
    if graph.tensors[first].shape != graph.tensors[node.output[0]].shape:
        return None
    number = float(value.reshape(()))
    if node.op_type == "Div":
        return (first, 1 / number) if number else None
    return first, number


def _perm(graph: OnnxGraph, node: NodeProto) -> Sequence[int]:
    axes = range(len(graph.tensors[node.input[0]].shape))
    found: Sequence[int] = attributes_of(node).get("perm", tuple(reversed(axes)))
    return found


def _only_products(wiring: Wiring, name: str, taken: Sequence[NodeProto]) -> bool:
    """Whether nothing but products needs the transposed copy, and what they have taken in."""
    readers = wiring.readers[name]
    return name not in wiring.outputs and all(each.op_type == "MatMul" or each in taken for each in readers)


def _reads_lines(perm: Perm) -> bool:
    """Whether neighbours of a matrix's row or column are neighbours in memory; else copying is faster."""
    return len(perm) - 1 in perm[-2:]
