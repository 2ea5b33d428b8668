"""Every If, replaced by the branch that it takes, or by both and a choice where that depends on data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NoReturn

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from tuner.frontend.onnx_check import ModelError, nested, node_name
from tuner.frontend.onnx_graph import Array, TensorInfo, folded

FEW_ELEMENTS = 16
"""An input up to this size may be one whose value a user can give."""
UNSAFE = ("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")
"""Operators that may read or write anywhere where their indices, the second operand, are not as expected."""
DIVIDING = ("Div", "Mod")
"""Operators that end the process where they divide an integer by zero."""


def settle(model: ModelProto) -> None:
    """Write what every If comes to in its place; input shapes are fixed, and the model is checked.

    Where only the data tells which branch is taken, both are computed and a Where chooses. Raises ModelError
    that names an If for which that cannot be, or that the value of an input would decide.
    """
    if all(node.op_type != "If" for node in model.graph.node):
        return
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    nodes, taken, initializers = list(model.graph.node), set(_names(model.graph)), []
    chosen: list[_Choice] = []
    while any(node.op_type == "If" for node in nodes):
        ready = [node for node in _before_branches(nodes) if any(name not in known for name in node.output)]
        folded(model, ready, known)
        decided = any(node.op_type == "If" and node.input[0] in known for node in nodes)
        both = None if decided else _first(model, nodes)
        following: list[NodeProto] = []
        for node in nodes:
            if both is not None and node is both:
                choice = _Choice(node, taken)
                chosen.append(choice)
                inlined, constants = choice.nodes, choice.constants
            elif node.op_type == "If" and node.input[0] in known:
                inlined, constants = _inline(node, _taken(node, known[node.input[0]]), taken)
            else:
                following.append(node)
                continue
            following += inlined
            initializers += constants
            known |= {tensor.name: numpy_helper.to_array(tensor) for tensor in constants}
        nodes = following
    if chosen:
        try:
            _, tensors = folded(model, nodes, dict(known))
        except ModelError as error:
            names = ", ".join(repr(node_name(choice.node)) for choice in chosen)
            raise ModelError(
                f"{error}; data decides {names} (If), so both branches would be computed"
            ) from None
        for choice in chosen:
            choice.check(known, tensors)
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


def _first(model: ModelProto, nodes: list[NodeProto]) -> NodeProto:
    """The first If, which data decides; raises ModelError if a value that a user may give would decide it."""
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
    if inputs and all(_elements(value.type.tensor_type) <= FEW_ELEMENTS for value in inputs):
        options = " ".join(f"--value {value.name}=NUMBER" for value in inputs)
        listed = ", ".join(repr(value.name) for value in inputs)
        raise ModelError(
            f"node {node_name(node)!r} (If) has a nested graph for each answer, and the answer depends on "
            f"the input {listed}: give the value that it shall always have, {options}"
        )
    return node


class _Choice:
    """Both branches of an If, and a Where for each result."""

    def __init__(self, node: NodeProto, taken: set[str]) -> None:
        self.node = node
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.results: list[tuple[str, ...]] = []
        sides = []
        for wanted in ("then_branch", "else_branch"):
            branch = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
            side = NodeProto()
            side.CopyFrom(node)
            side.name = f"{node_name(node)}/{wanted}"
            side.output[:] = [name and _fresh(f"{name}/{wanted}", taken) for name in node.output]
            inlined, constants = _inline(side, branch, taken)
            self.nodes += inlined
            self.constants += constants
            sides.append(side)
        self.inside = list(self.nodes)
        shape, condition = (_fresh(f"{node_name(node)}/{name}", taken) for name in ("shape", "condition"))
        self.constants.append(numpy_helper.from_array(np.zeros(0, np.int64), shape))
        self._add("Reshape", [node.input[0], shape], condition)
        for name, *both in zip(node.output, *(side.output for side in sides), strict=True):
            if name:
                self.results.append((name, *both))
                self._add("Where", [condition, *both], name)

    def _add(self, op: str, inputs: list[str], output: str) -> None:
        name = f"{node_name(self.node)}/{output}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name))

    def check(self, known: Mapping[str, Array], tensors: Mapping[str, TensorInfo]) -> None:
        """Raise ModelError unless both branches can always be computed, and their results are alike."""
        for node in self.inside:
            index = node.op_type in UNSAFE and node.input[1] not in known
            divisor = tensors.get(node.input[1]) if node.op_type in DIVIDING else None
            if index or (divisor and "int" in divisor.dtype and node.input[1] not in known):
                self._refuse(
                    f"node {node_name(node)!r} ({node.op_type}) may only be computed where it is taken"
                )
        for name, *both in self.results:
            then, otherwise = (tensors.get(each) for each in both)
            if then is None or then != otherwise:
                self._refuse(f"its branches make {name!r} of different shapes or types")

    def _refuse(self, reason: str) -> NoReturn:
        raise ModelError(
            f"node {node_name(self.node)!r} (If) depends on data, so both branches would be computed, and "
            f"{reason}; export the model with one of the branches"
        )


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
