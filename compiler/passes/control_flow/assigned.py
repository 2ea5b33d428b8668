"""One place of an array that gets another value, as Paddle's exporter writes ``array[:, i] = value``.

It cuts out the part from i to min(i + 1, extent), spreads the value over the part's shape, and scatters it to
all places from i to there. That is one place, which nobody sees who does not know what i is.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper

from compiler.ir.checks import node_name
from compiler.ir.graph import attributes_of
from compiler.passes.cleanup.dead_code import needed

SAME = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that leave a number what it is: of one element, whatever their shape and type."""


def assign(model: ModelProto) -> None:
    """Write every such assignment as one that has its place as an operand, in place."""
    graph = _Graph(model)
    nodes: list[NodeProto] = []
    found = False
    for node in model.graph.node:
        parts = graph.assignment(node) if node.op_type == "ScatterElements" else None
        nodes += [node] if parts is None else parts.written()
        found |= parts is not None
    if found:
        left = needed(nodes, [value.name for value in model.graph.output])
        del model.graph.node[:]
        model.graph.node.extend(left)


class _Graph:
    """Who makes what, and what is constant."""

    def __init__(self, model: ModelProto) -> None:
        self._made = {name: node for node in model.graph.node for name in node.output}
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        for name, node in self._made.items():
            if node.op_type == "Constant" and node.attribute[0].HasField("t"):
                self._constants[name] = node.attribute[0].t

    def _by(self, name: str, op: str) -> NodeProto | None:
        node = self._made.get(name)
        return node if node is not None and node.op_type == op else None

    def _plain(self, name: str) -> str:
        """The tensor that has the one number of ``name``, too."""
        while (node := self._made.get(name)) and node.op_type in SAME:
            name = node.input[0]
        return name

    def _is(self, name: str, number: int) -> bool:
        tensor = self._constants.get(self._plain(name))
        return tensor is not None and numpy_helper.to_array(tensor).reshape(-1).tolist() == [number]

    def assignment(self, node: NodeProto) -> _Assignment | None:
        """The assignment that ``node`` ends; None where it is another scatter."""
        data, axis = node.input[0], attributes_of(node).get("axis", 0)
        spread, tiled = self._by(node.input[2], "Expand"), self._by(node.input[1], "Tile")
        shape = self._by(spread.input[1], "Shape") if spread else None
        part = self._by(shape.input[0], "Slice") if shape else None
        if not (spread and tiled and part) or len(part.input) < 5 or part.input[0] != data:
            return None
        begin, end, axes, steps = part.input[1:5]
        least = self._by(end, "Min")
        if not (self._is(axes, axis) and self._is(steps, 1)) or least is None or len(least.input) != 2:
            return None
        extent, after = least.input
        length = self._by(extent, "Gather")
        sizes = self._by(length.input[0], "Shape") if length else None
        if not (length and sizes) or sizes.input[0] != data or not self._is(length.input[1], axis):
            return None
        # The end is one behind the begin, and what is scattered to are the places between.
        more, between = self._by(self._plain(after), "Add"), self._by(self._plain(tiled.input[0]), "Range")
        if not (more and between) or not (self._is(more.input[1], 1) and self._is(between.input[2], 1)):
            return None
        if self._plain(more.input[0]) != self._plain(begin):
            return None
        if [self._plain(name) for name in between.input[:2]] != [self._plain(begin), self._plain(end)]:
            return None
        return _Assignment(node, begin, extent, spread.input[0])


class _Assignment:
    """What ``node`` needs: the place (one element), the axis's extent, and the value."""

    def __init__(self, node: NodeProto, place: str, extent: str, value: str) -> None:
        self.node, self.place, self.extent, self.value = node, place, extent, value

    def written(self) -> list[NodeProto]:
        """The nodes: a place behind the last one keeps the last one what it is."""
        node, axis = self.node, attributes_of(self.node).get("axis", 0)
        start, name = f"{node.output[0]}/assigned", node_name(node)
        one = numpy_helper.from_array(np.array([1]), f"{start}.one")
        steps = [
            ("Constant", [], "one", {"value": one}),
            ("Sub", [self.extent, f"{start}.one"], "last", {}),
            ("Min", [self.place, f"{start}.last"], "at", {}),
            ("Gather", [node.input[0], f"{start}.at"], "old", {"axis": axis}),
            ("Less", [self.place, self.extent], "there", {}),
            ("Where", [f"{start}.there", self.value, f"{start}.old"], "new", {}),
            ("Shape", [f"{start}.old"], "shape", {}),
            ("Expand", [f"{start}.at", f"{start}.shape"], "index", {}),
        ]
        nodes = [
            helper.make_node(op, inputs, [f"{start}.{output}"], name=name, **more)
            for op, inputs, output, more in steps
        ]
        inputs = [node.input[0], f"{start}.index", f"{start}.new"]
        return [*nodes, helper.make_node("ScatterElements", inputs, node.output, name=name, axis=axis)]
