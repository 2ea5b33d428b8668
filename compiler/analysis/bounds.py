"""Bounds of the indices that a node reads, and where the indices come from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import prod

from onnx import NodeProto

from compiler.analysis.intervals import Intervals
from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.ir.own_nodes import BOUNDED, NEEDS

INDICES = {
    BOUNDED: 0,
    "Gather": 1,
    "GatherElements": 1,
    "GatherND": 1,
    "RoiAlign": 2,
    "Scatter": 1,
    "ScatterElements": 1,
    "ScatterND": 1,
}
"""Operators that are given indices, or lengths, and the operand that these are."""
SAME = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that leave whole numbers what they are, unless a type has no room for them."""
Limits = tuple[tuple[int, int], ...]
"""The least and the greatest of all, or of those in each place of the last axis."""
NOT_ZERO = (1, -1)
"""The pair of all numbers but 0. Where the least is above the greatest by more than one, those between are
left out. Nothing is within a pair such as (0, -1), that of an axis of nothing."""


@dataclass(frozen=True)
class Bound:
    """``node`` reads by the numbers in ``name``, which are within ``limits`` or must not be used."""

    node: NodeProto
    name: str
    limits: Limits

    @property
    def who(self) -> str:
        """The node, as messages have it."""
        if self.node.op_type == BOUNDED:
            return str(attributes_of(self.node)["who"].decode())
        if needs := _needs(self.node):
            return needs[0]
        return f"node {node_name(self.node)!r} ({self.node.op_type})"

    @property
    def what(self) -> str:
        """What the numbers are."""
        if needs := _needs(self.node):
            return needs[1]
        return str(attributes_of(self.node).get("what", b"an index").decode())


def bound_of(graph: OnnxGraph, node: NodeProto, intervals: Intervals) -> Bound | None:
    """That of ``node``, if its indices come from data that may be outside.

    Raises ModelError for constants that are.
    """
    place = INDICES.get(node.op_type)
    if place is None:
        return None
    name = node.input[place]
    limits = _limits(graph, node)
    known = graph.constants.get(name)
    if known is None:
        inside = all(is_within(*intervals.of(name), *pair) for pair in limits)
        return None if inside or not prod(graph.tensors[name].shape) else Bound(node, name, limits)
    columns = known.reshape(-1, len(limits))
    for column, (least, most) in zip(columns.T, limits, strict=True):
        if column.size and not least <= column.min() <= column.max() <= most:
            bound = Bound(node, name, limits)
            raise ModelError(
                f"{bound.who} needs {bound.what} from {least} to {most}, and the model has {column.min()} to "
                f"{column.max()}"
            )
    return None


def is_within(low: int, high: int, least: int, most: int) -> bool:
    """Whether all numbers from ``low`` to ``high`` are within a pair of limits."""
    return low >= least or high <= most if least > most + 1 else least <= low and high <= most


def needs(low: int | str, high: int | str) -> str:
    """Which numbers are within a pair of limits, as messages have it."""
    return "other than 0" if (low, high) == NOT_ZERO else f"from {low} to {high}"


def _limits(graph: OnnxGraph, node: NodeProto) -> Limits:
    """Of the indices that ``node`` is given, which count from the end where they are negative."""
    shape, attributes = graph.tensors[node.input[0]].shape, attributes_of(node)
    if node.op_type == BOUNDED:
        return ((attributes["low"], attributes["high"]),)
    if node.op_type == "RoiAlign":
        return ((0, shape[0] - 1),)
    if node.op_type in ("GatherND", "ScatterND"):
        first = attributes.get("batch_dims", 0)
        depth = graph.tensors[node.input[1]].shape[-1]
        extents = shape[first : first + depth]
    else:
        extents = (shape[attributes.get("axis", 0) % len(shape)],)
    return tuple((0 if _needs(node) else -extent, extent - 1) for extent in extents)


def _needs(node: NodeProto) -> list[str]:
    """See ``NEEDS``; nothing of most nodes."""
    return next((json.loads(each.value) for each in node.metadata_props if each.key == NEEDS), [])


def origin(graph: OnnxGraph, bound: Bound) -> str:
    """The tensor that nobody computes of which ``bound.name`` has the numbers, in whatever shape; else
    itself."""
    makers = {output: node for node in graph.nodes for output in node.output}
    name = bound.name
    while name in makers and makers[name].op_type in SAME:
        node, name = makers[name], makers[name].input[0]
        shapes = [graph.tensors[each].shape for each in (name, node.output[0])]
        kinds = [graph.tensors[each].dtype for each in (name, node.output[0])]
        if len(bound.limits) > 1 and shapes[0] != shapes[1]:
            return bound.name
        if not _holds(kinds[1], kinds[0]):
            return bound.name
    return name if name in graph.inputs else bound.name


def _holds(wide: str, narrow: str) -> bool:
    """Whether a type has all whole numbers of another."""
    return wide == narrow or (wide == "int64" and narrow in ("int32", "int16", "int8", "uint8", "uint16"))
