"""Every If whose condition is known, replaced by the branch that it takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from tuner.frontend.onnx_check import ModelError, nested, node_name
from tuner.frontend.onnx_graph import Array, folded

FEW_ELEMENTS = 16
"""An input up to this size may be one whose value a user can give."""


def settle(model: ModelProto) -> None:
    """Write what every If comes to in its place; input shapes are fixed, and the model is checked.

    Raises ModelError that names an If whose condition is not known before the model runs.
    """
    if all(node.op_type != "If" for node in model.graph.node):
        return
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    nodes, taken, initializers = list(model.graph.node), set(_names(model.graph)), []
    while any(node.op_type == "If" for node in nodes):
        ready = [node for node in _before_branches(nodes) if any(name not in known for name in node.output)]
        folded(model, ready, known)
        if not any(node.op_type == "If" and node.input[0] in known for node in nodes):
            raise _undecided(model, nodes)
        following: list[NodeProto] = []
        for node in nodes:
            if node.op_type != "If" or node.input[0] not in known:
                following.append(node)
                continue
            branch = _taken(node, known[node.input[0]])
            inlined, constants = _inline(node, branch, taken)
            following += inlined
            initializers += constants
            known |= {tensor.name: numpy_helper.to_array(tensor) for tensor in constants}
        nodes = following
    needed = _needed(nodes, [value.name for value in model.graph.output])
    del model.graph.node[:]
    model.graph.node.extend(needed)
    model.graph.initializer.extend(initializers)


def _names(graph: GraphProto) -> Iterator[str]:
    """All names of tensors in ``graph`` and the graphs inside it."""
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    for node in graph.node:
        yield from (*node.input, *node.output)
        for inner in nested(node):
            yield from _names(inner)


def reads(node: NodeProto) -> Iterator[str]:
    """What ``node`` reads, and the graphs inside it of what lies around them."""
    yield from node.input
    for inner in nested(node):
        own = _made(inner)
        used = [value.name for value in inner.output] + [name for each in inner.node for name in reads(each)]
        yield from (name for name in used if name not in own)


def _made(graph: GraphProto) -> set[str]:
    """The names that are a graph's own, and hide those around it."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    return own | {name for each in graph.node for name in each.output}


def _before_branches(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes that depend on no If: a branch that is not taken may be of shapes that do not fit."""
    unknown: set[str] = set()
    for node in nodes:
        if node.op_type == "If" or unknown.intersection(node.input):
            unknown.update(node.output)
        else:
            yield node


def _undecided(model: ModelProto, nodes: list[NodeProto]) -> ModelError:
    """Why the first If cannot be decided, and what would help."""
    node = next(node for node in nodes if node.op_type == "If")
    makers = {name: each for each in nodes for name in each.output if name}
    seen: set[str] = set()
    open_names = [node.input[0]]
    while open_names:
        name = open_names.pop()
        if name not in seen:
            seen.add(name)
            open_names += reads(makers[name]) if name in makers else []
    inputs = [value for value in model.graph.input if value.name in seen]
    small = [value.name for value in inputs if _elements(value.type.tensor_type) <= FEW_ELEMENTS]
    start = f"node {node_name(node)!r} (If) has a nested graph for each answer, and the answer depends on "
    if inputs and len(small) == len(inputs):
        options = " ".join(f"--value {name}=NUMBER" for name in small)
        listed = ", ".join(repr(name) for name in small)
        return ModelError(f"{start}the input {listed}: give the value that it shall always have, {options}")
    what = ", ".join(repr(value.name) for value in inputs) or "what is not known before the model runs"
    return ModelError(f"{start}{what}; control flow that depends on data is not supported")


def _elements(kind: TypeProto.Tensor) -> int:
    return math.prod(dim.dim_value for dim in kind.shape.dim)


def _taken(node: NodeProto, condition: Array) -> GraphProto:
    if condition.size != 1:
        raise ModelError(f"node {node_name(node)!r} (If) has a condition of {condition.size} elements")
    wanted = "then_branch" if condition.reshape(())[()] else "else_branch"
    graph: GraphProto = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
    return graph


def _inline(
    node: NodeProto, branch: GraphProto, taken: set[str]
) -> tuple[list[NodeProto], list[TensorProto]]:
    """Nodes and initializers of ``branch`` as part of the graph around ``node``, whose results they make.

    What the branch makes gets names that nothing else has; those of the graph around it mean what they did.
    """
    if len(branch.output) != len(node.output):
        raise ModelError(f"node {node_name(node)!r} (If) has a branch of {len(branch.output)} results")
    made = {name for each in branch.node for name in each.output if name}
    names: dict[str, str] = {}
    copies = []
    for outside, inside in zip(node.output, branch.output, strict=True):
        if inside.name in made and inside.name not in names and outside:
            names[inside.name] = outside
        elif outside:
            copies.append((inside.name, outside))
    for name in [*made, *(tensor.name for tensor in branch.initializer)]:
        if name not in names:
            names[name] = _fresh(f"{node_name(node)}/{name}", taken)
    nodes, constants = [], []
    for each in branch.node:
        copy = NodeProto()
        copy.CopyFrom(each)
        copy.name = f"{node_name(node)}/{node_name(each)}"
        rename(copy, names)
        nodes.append(copy)
    for tensor in branch.initializer:
        constant = TensorProto()
        constant.CopyFrom(tensor)
        constant.name = names[tensor.name]
        constants.append(constant)
    for inside_name, outside in copies:
        source = names.get(inside_name, inside_name)
        nodes.append(helper.make_node("Identity", [source], [outside], name=f"{node_name(node)}/{outside}"))
    return nodes, constants


def _fresh(name: str, taken: set[str]) -> str:
    found, count = name, 0
    while found in taken:
        count += 1
        found = f"{name}.{count}"
    taken.add(found)
    return found


def rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Write ``names`` for what ``node``, and the graphs inside it, read and make."""
    for field in (node.input, node.output):
        field[:] = [names.get(name, name) for name in field]
    for inner in nested(node):
        own = _made(inner)
        outer = {old: new for old, new in names.items() if old not in own}
        for each in inner.node:
            rename(each, outer)
        for value in inner.output:
            value.name = outer.get(value.name, value.name)


def _needed(nodes: list[NodeProto], outputs: list[str]) -> list[NodeProto]:
    """The nodes that the results depend on: a branch that is not taken leaves others behind."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            wanted.update(reads(node))
            kept.append(node)
    return kept[::-1]
