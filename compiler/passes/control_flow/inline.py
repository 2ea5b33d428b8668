"""Inline a nested graph into the graph around it, with fresh names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import GraphProto, NodeProto, TensorProto, helper

from compiler.ir.checks import node_name
from compiler.ir.names import fresh, rename


@dataclass
class Written:
    """What stands in the place of a node."""

    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def add(self, other: Written) -> None:
        """Put ``other`` behind this."""
        self.nodes += other.nodes
        self.constants += other.constants

    def node(self, op: str, inputs: list[str], output: str, around: NodeProto, **attributes: Any) -> None:
        """Write a node that is named after the one ``around`` it, and after its result."""
        name = f"{node_name(around)}/{output}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))


def inline(
    around: NodeProto,
    graph: GraphProto,
    outputs: list[str],
    taken: set[str],
    given: Mapping[str, str] | None = None,
    prefix: str = "",
) -> Written:
    """Nodes and initializers of ``graph`` as part of the graph around the node ``around``.

    Its results become ``outputs`` (empty for one that nobody wants), its inputs what they are ``given``. What
    it makes gets names that nothing else has; those of the graph around it mean what they did.
    """
    prefix = prefix or node_name(around)
    inside_names = {name for each in graph.node for name in each.output if name}
    names: dict[str, str] = dict(given or {})
    copies = []
    for outside, inside in zip(outputs, graph.output, strict=True):
        if inside.name in inside_names and inside.name not in names and outside:
            names[inside.name] = outside
        elif outside and names.get(inside.name) != outside:
            copies.append((inside.name, outside))
    for name in [*inside_names, *(tensor.name for tensor in graph.initializer)]:
        if name not in names:
            names[name] = fresh(f"{prefix}/{name}", taken)
    written = Written()
    for each in graph.node:
        copy = NodeProto()
        copy.CopyFrom(each)
        copy.name = f"{prefix}/{node_name(each)}"
        rename(copy, names)
        written.nodes.append(copy)
    for tensor in graph.initializer:
        constant = TensorProto()
        constant.CopyFrom(tensor)
        constant.name = names[tensor.name]
        written.constants.append(constant)
    for inside_name, outside in copies:
        source = names.get(inside_name, inside_name)
        written.nodes.append(helper.make_node("Identity", [source], [outside], name=f"{prefix}/{outside}"))
    return written
