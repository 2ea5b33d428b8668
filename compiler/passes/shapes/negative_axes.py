"""Negative axes, as converters write them before the operator set that allows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnx import NodeProto

ALLOWED = 11
"""From which operator set on every axis may be counted from the end."""
AXES = {"Concat": "axis", "Squeeze": "axes", "Unsqueeze": "axes"}
"""For these operators onnx infers no shape, or a wrong one, from such an axis; onnxruntime takes it."""


def count_axes(nodes: list[NodeProto], ranks: Callable[[list[NodeProto]], Mapping[str, int]]) -> None:
    """Count these operators' axes from the front, in place, where it is known how many there are.

    ``ranks`` tells how many axes all tensors have as far as some of the nodes say.
    """
    moved = True
    while moved:
        waiting = [node for node in nodes if _negative(node)]
        if not waiting:
            return
        known = ranks(_before(nodes))
        moved = False
        for node in waiting:
            rank = next((known[name] for name in node.input if name in known), None)
            if rank is not None:
                _count(node, rank)
                moved = True


def _negative(node: NodeProto) -> bool:
    said = [each for each in node.attribute if each.name == AXES.get(node.op_type)]
    return any(axis < 0 for each in said for axis in (each.i, *each.ints))


def _before(nodes: list[NodeProto]) -> list[NodeProto]:
    """The nodes that do not depend on one with axes that are still counted from the end."""
    unknown: set[str] = set()
    ready = []
    for node in nodes:
        if _negative(node) or unknown.intersection(node.input):
            unknown.update(node.output)
        else:
            ready.append(node)
    return ready


def _count(node: NodeProto, rank: int) -> None:
    for each in node.attribute:
        if each.name != AXES[node.op_type]:
            continue
        rank += len(each.ints) if node.op_type == "Unsqueeze" else 0
        if each.i < 0:
            each.i += rank
        each.ints[:] = [axis + rank if axis < 0 else axis for axis in each.ints]
