"""Operands of a matrix product, with the transposes and factors around them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.passes.epilogues.epilogue import Wiring

Perm = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """``factor`` times the tensor ``name`` with its axes in the order ``perm``."""

    name: str
    perm: Perm
    factor: float = 1.0


def operand_of(
    graph: OnnxGraph, wiring: Wiring, name: str, written: Set[str], behind: Sequence[NodeProto] = ()
) -> Operand:
    """What the factor ``name`` of a product is made of, back to what is ``written`` by then.

    ``behind`` are nodes that the product takes in already.
    """
    perm, factor = tuple(range(len(graph.tensors[name].shape))), 1.0
    taken = list(behind)
    while name not in written and (node := wiring.writers.get(name)) is not None:
        scale = scale_of(graph, node)
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


def grouped_operand(graph: OnnxGraph, wiring: Wiring, name: str, written: Set[str]) -> Operand:
    """The same of keys or values; where each head is repeated for a group of queries, one of every group."""
    whole = operand_of(graph, wiring, name, written)
    nodes, at = [], whole.name
    for ops in (("Reshape",), ("Expand",), ("Unsqueeze", "Reshape")):
        node = wiring.writers.get(at)
        if node is None or node.op_type not in ops or at in written or wiring.only_reader(at) is None:
            return whole
        nodes.append(node)
        at = node.input[0]
    repeated, wide, narrow, heads = (
        graph.tensors[each].shape for each in (whole.name, nodes[0].input[0], nodes[1].input[0], at)
    )
    split = len(repeated) - 2
    if len(heads) != len(repeated) or narrow != (*heads[:split], 1, *heads[split:]):
        return whole
    if wide[:split] != heads[:split] or wide[split + 1 :] != heads[split:]:
        return whole
    if repeated != (*heads[: split - 1], heads[split - 1] * wide[split], *heads[split:]):
        return whole
    source = operand_of(graph, wiring, at, written, nodes)
    perm = tuple(source.perm[axis] for axis in whole.perm)
    return Operand(source.name, perm, source.factor * whole.factor) if _reads_lines(perm) else whole


def result_of(graph: OnnxGraph, wiring: Wiring, name: str) -> Operand:
    """What becomes of a product: the last tensor that it can write.

    In the order ``perm`` that is ``factor`` times the product.
    """
    order, factor = tuple(range(len(graph.tensors[name].shape))), 1.0
    while (node := wiring.only_reader(name)) is not None:
        scale = scale_of(graph, node)
        if scale is not None and scale[0] == name:
            factor *= scale[1]
        elif node.op_type == "Identity":
            pass
        elif node.op_type == "Transpose":
            turned = tuple(order[axis] for axis in _perm(graph, node))
            if turned[-1] != len(turned) - 1:
                break
            order = turned
        else:
            break
        name = node.output[0]
    return Operand(name, tuple(order.index(axis) for axis in range(len(order))), factor)


def scale_of(graph: OnnxGraph, node: NodeProto) -> tuple[str, float] | None:
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
