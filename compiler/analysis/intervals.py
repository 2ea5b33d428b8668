"""Ranges of the integers of a graph, whatever its inputs hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from onnx import NodeProto

from compiler.ir.graph import OnnxGraph, attributes_of
from compiler.ir.own_nodes import BOUNDED

Interval = tuple[int, int]
"""The least and the greatest."""
ANY = (-(1 << 63), (1 << 63) - 1)
DEEPEST = 200
"""Tensors that are made of so many, one after the other, are not looked into."""


class Intervals:
    """Those of the tensors of ``graph``."""

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self._makers = {output: node for node in graph.nodes for output in node.output}
        self._known: dict[str, Interval] = {}

    def of(self, name: str, depth: int = 0) -> Interval:
        """That of a tensor; of a type's limits where nothing better is known."""
        if name not in self._known:
            self._known[name] = self._type(name)
            if depth < DEEPEST:
                self._known[name] = self._found(name, depth)
        return self._known[name]

    def _type(self, name: str) -> Interval:
        kind = np.dtype(self._graph.tensors[name].dtype)
        if kind.kind == "b":
            return 0, 1
        return (int(np.iinfo(kind).min), int(np.iinfo(kind).max)) if kind.kind in "iu" else ANY

    def _found(self, name: str, depth: int) -> Interval:
        limits, known, node = self._type(name), self._graph.constants.get(name), self._makers.get(name)
        if known is not None:
            whole = known.size and known.dtype.kind in "iub"
            return (int(known.min()), int(known.max())) if whole else limits
        rule = None if node is None else _RULES.get(node.op_type)
        if node is None or rule is None or not self._is_whole(name):
            return limits
        operands = [self.of(each, depth + 1) if self._is_whole(each) else ANY for each in node.input]
        low, high = rule(self._graph, node, name, operands)
        # What leaves the type comes in at its other end.
        return (low, high) if limits[0] <= low <= high <= limits[1] else limits

    def _is_whole(self, name: str) -> bool:
        info = self._graph.tensors.get(name)
        return info is not None and np.dtype(info.dtype).kind in "iub"


Rule = Callable[[OnnxGraph, NodeProto, str, Sequence[Interval]], Interval]


def _some(places: slice, _: OnnxGraph, __: NodeProto, ___: str, operands: Sequence[Interval]) -> Interval:
    """Numbers of these operands."""
    lows, highs = zip(*operands[places], strict=True)
    return min(lows), max(highs)


def _along(graph: OnnxGraph, node: NodeProto, name: str, _: Sequence[Interval]) -> Interval:
    """A place along an axis."""
    default = -1 if node.op_type == "TopK" else 0
    shape = graph.tensors[node.input[0]].shape
    axis = attributes_of(node).get("axis", default)
    return (0, max(0, shape[axis] - 1)) if name != node.output[0] or node.op_type != "TopK" else ANY


def _nonzero(graph: OnnxGraph, node: NodeProto, _: str, __: Sequence[Interval]) -> Interval:
    """A place along any axis, or -1 where nothing is left."""
    return -1, max(graph.tensors[node.input[0]].shape, default=1) - 1


def _bounded(_: OnnxGraph, node: NodeProto, __: str, operands: Sequence[Interval]) -> Interval:
    (low, high), attributes = operands[0], attributes_of(node)
    if attributes["low"] > attributes["high"] + 1:
        return low, high
    return max(low, attributes["low"]), min(high, attributes["high"])


def _sum(_: OnnxGraph, __: NodeProto, ___: str, operands: Sequence[Interval]) -> Interval:
    return sum(low for low, _ in operands), sum(high for _, high in operands)


def _difference(_: OnnxGraph, __: NodeProto, ___: str, operands: Sequence[Interval]) -> Interval:
    (low, high), (least, most) = operands
    return low - most, high - least


def _product(_: OnnxGraph, __: NodeProto, ___: str, operands: Sequence[Interval]) -> Interval:
    one, other = operands
    ends = [a * b for a in one for b in other]
    return min(ends), max(ends)


def _rest(_: OnnxGraph, node: NodeProto, __: str, operands: Sequence[Interval]) -> Interval:
    """Of a division by numbers above zero; with ``fmod`` it has the sign of what is divided."""
    low, high = operands[1]
    if low < 1:
        return ANY
    return (1 - high if attributes_of(node).get("fmod", 0) else 0), high - 1


def _least(_: OnnxGraph, __: NodeProto, ___: str, operands: Sequence[Interval]) -> Interval:
    lows, highs = zip(*operands, strict=True)
    return min(lows), min(highs)


def _greatest(_: OnnxGraph, __: NodeProto, ___: str, operands: Sequence[Interval]) -> Interval:
    lows, highs = zip(*operands, strict=True)
    return max(lows), max(highs)


def _clipped(_: OnnxGraph, node: NodeProto, __: str, operands: Sequence[Interval]) -> Interval:
    low, high = operands[0]
    if len(node.input) > 1 and node.input[1]:
        low, high = max(low, operands[1][0]), max(high, operands[1][1])
    if len(node.input) > 2 and node.input[2]:
        low, high = min(low, operands[2][0]), min(high, operands[2][1])
    return low, high


_FIRST, _ALL = partial(_some, slice(0, 1)), partial(_some, slice(None))
_MOVING = (
    *("Cast", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Slice"),
    *("Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_MOVING, _FIRST),
    "Add": _sum,
    "ArgMax": _along,
    "ArgMin": _along,
    BOUNDED: _bounded,
    "Clip": _clipped,
    "Concat": _ALL,
    "Max": _greatest,
    "Min": _least,
    "Mod": _rest,
    "Mul": _product,
    "NonZero": _nonzero,
    "Sub": _difference,
    "TopK": _along,
    "Where": partial(_some, slice(1, 3)),
}
