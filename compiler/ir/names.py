"""Names of tensors in a graph and the graphs inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import GraphProto, NodeProto

from compiler.ir.checks import nested


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
