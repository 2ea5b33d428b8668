"""A nested graph as part of the graph around it, and the names that both have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx import GraphProto, NodeProto, TensorProto, helper

from tuner.frontend.onnx_check import nested, node_name


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


def names_of(graph: GraphProto) -> Iterator[str]:
    """All names of tensors in ``graph`` and the graphs inside it."""
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from (*node.input, *node.output)
        for inner in nested(node):
            yield from names_of(inner)


def reads(node: NodeProto) -> Iterator[str]:
    """What ``node`` reads, and the graphs inside it of what lies around them."""
    yield from node.input
    for inner in nested(node):
        own = made(inner)
        used = [value.name for value in inner.output] + [name for each in inner.node for name in reads(each)]
        yield from (name for name in used if name not in own)


def made(graph: GraphProto) -> set[str]:
    """The names that are a graph's own, and hide those around it."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return own | {name for each in graph.node for name in each.output}


def fresh(name: str, taken: set[str]) -> str:
    """``name``, or something like it that is not ``taken``; it is from now on."""
    found, count = name, 0
    while found in taken:
        count += 1
        found = f"{name}.{count}"
    taken.add(found)
    return found


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


def rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Write ``names`` for what ``node``, and the graphs inside it, read and make."""
    for field_ in (node.input, node.output):
        field_[:] = [names.get(name, name) for name in field_]
    for inner in nested(node):
        own = made(inner)
        outer = {old: new for old, new in names.items() if old not in own}
        for each in inner.node:
            rename(each, outer)
        for value in inner.output:
            value.name = outer.get(value.name, value.name)
