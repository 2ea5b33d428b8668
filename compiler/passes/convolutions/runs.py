"""Runs of nodes on arrays that are no images become runs on images, without reshapes in between.

A convolution of one or three spatial axes is one of images after its data were reshaped. Were each reshaped
by itself, nothing could be fused into it and nothing could keep a layout; so what lies between them goes
along.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.elementwise import BINARY, UNARY
from compiler.ir.graph import Array, OnnxGraph, TensorInfo, attributes_of

PRODUCTS = ("MatMul", "Gemm")
SINGLE = {*BINARY, *UNARY, "BatchNormalization", "PRelu"}
"""Operators that compute each element by itself, with constants of its channel at most."""


class Form(Protocol):
    """How arrays of ``rank`` axes lie as images, and what of them is computed so."""

    rank: int

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The image's shape."""

    def enter(self, run: Run, node: NodeProto, source: str, target: str) -> None:
        """Write the nodes that make the image ``target`` of ``source``, for ``node``, which reads it."""

    def leave(self, run: Run, node: NodeProto, source: str, target: str) -> None:
        """Write the nodes that make ``target`` of the image ``source``, which ``node`` writes."""

    def operand(self, value: Array) -> Array | None:
        """A constant operand of a node of single elements; None for one that has no place in an image."""

    def is_window(self, node: NodeProto) -> bool:
        """Whether ``node`` is what runs are made for."""

    def takes(self, node: NodeProto) -> bool:
        """Whether ``write`` can write ``node``, which is not of single elements."""

    def write(self, run: Run, node: NodeProto) -> None:
        """Write ``node`` as nodes of images, from and to ``run.image`` of its activations."""


class Run:
    """The graph's nodes while they are rewritten."""

    def __init__(self, graph: OnnxGraph, form: Form) -> None:
        self.graph, self._form = graph, form
        self.nodes: list[NodeProto] = []
        self._images: dict[str, str] = {}

    def image(self, name: str) -> str:
        """The image of a tensor, which may be not written yet."""
        if name not in self._images:
            info = self.graph.tensors[name]
            self._images[name] = self.tensor(f"{name}/image", self._form.shape(info.shape), info.elem_type)
        return self._images[name]

    def is_made(self, name: str) -> bool:
        """Whether there is an image of a tensor."""
        return name in self._images

    def tensor(self, name: str, shape: tuple[int, ...], elem_type: int) -> str:
        """A new tensor of the graph; its name."""
        name = self.graph.fresh(name)
        self.graph.tensors[name] = TensorInfo(shape, elem_type)
        return name

    def add(self, like: NodeProto, op: str, inputs: list[str], output: str, **attributes: Any) -> None:
        """Write a node called like ``like``."""
        self.nodes.append(helper.make_node(op, inputs, [output], name=node_name(like), **attributes))

    def like(self, name: str, shape: tuple[int, ...]) -> str:
        """A new tensor of another shape than ``name`` has; its name."""
        return self.tensor(name, shape, self.graph.tensors[name].elem_type)

    def reshape(self, node: NodeProto, source: str, target: str) -> None:
        """Write ``source`` in the shape of ``target``, for ``node``."""
        shape = np.array(self.graph.tensors[target].shape, np.int64)
        self.add(node, "Reshape", [source, self.graph.constant("shape", shape)], target)

    def again(self, node: NodeProto, inputs: list[str], output: str, **attributes: Any) -> None:
        """Write ``node`` with other operands, and ``attributes`` in place of some of its own."""
        self.add(node, node.op_type, inputs, output, **{**attributes_of(node), **attributes})


def lift(graph: OnnxGraph, form: Form) -> None:
    """Compute every run of nodes around windows on images."""
    taken, parts = _taken(graph, form), _Parts()
    for node in taken.values():
        for name in _activations(graph, form, node):
            parts.join(node.output[0], name)
    wanted = {parts.of(name) for name, node in taken.items() if form.is_window(node)}
    taken = {name: node for name, node in taken.items() if parts.of(name) in wanted}
    if not taken:
        return
    run = Run(graph, form)
    outside = {name for node in graph.nodes if node.output[0] not in taken for name in node.input}
    outside.update(graph.outputs)
    for node in graph.nodes:
        if node.output[0] not in taken:
            run.nodes.append(node)
            continue
        for name in dict.fromkeys(_activations(graph, form, node)):
            if not run.is_made(name):
                form.enter(run, node, name, run.image(name))
        if node.op_type in SINGLE:
            _write_single(run, form, node)
        else:
            form.write(run, node)
        if node.output[0] in outside:
            form.leave(run, node, run.image(node.output[0]), node.output[0])
    graph.nodes = run.nodes


def _taken(graph: OnnxGraph, form: Form) -> dict[str, NodeProto]:
    """By their results, the nodes that can be computed on images.

    What a matrix product takes in along with it stays with it.
    """
    found: dict[str, NodeProto] = {}
    held: set[str] = set()
    for node in graph.nodes:
        if node.op_type in PRODUCTS or (node.op_type in SINGLE and held.intersection(node.input)):
            held.add(node.output[0])
        elif _can_be_taken(graph, form, node):
            found[node.output[0]] = node
    return found


def _activations(graph: OnnxGraph, form: Form, node: NodeProto) -> list[str]:
    return [
        name
        for name in node.input
        if name and name not in graph.constants and len(graph.tensors[name].shape) == form.rank
    ]


def _can_be_taken(graph: OnnxGraph, form: Form, node: NodeProto) -> bool:
    info, results = graph.tensors[node.output[0]], [name for name in node.output if name]
    if len(info.shape) != form.rank or info.dtype != "float32" or len(results) != 1:
        return False
    if node.op_type not in SINGLE:
        return form.takes(node)
    if node.op_type in (*BINARY, "PRelu"):
        return all(_is_operand(graph, form, name, info.shape) for name in node.input)
    # The others are numbers, or of one axis.
    return node.input[0] not in graph.constants


def _is_operand(graph: OnnxGraph, form: Form, name: str, shape: tuple[int, ...]) -> bool:
    if name in graph.constants:
        return form.operand(graph.constants[name]) is not None
    return graph.tensors[name].shape == shape


def _write_single(run: Run, form: Form, node: NodeProto) -> None:
    inputs = list(node.input)
    for place, name in enumerate(inputs):
        if place and node.op_type not in (*BINARY, "PRelu"):
            continue
        value = run.graph.constants.get(name)
        operand = None if value is None else form.operand(value)
        inputs[place] = run.image(name) if operand is None else run.graph.constant(f"{name}/image", operand)
    run.again(node, inputs, run.image(node.output[0]))


class _Parts:
    """Tensors that hang together."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The one that stands for all that hang together with ``name``."""
        above = self._above.setdefault(name, name)
        while above != self._above[above]:
            self._above[name] = above = self._above[above]
        return above

    def join(self, one: str, other: str) -> None:
        self._above[self.of(one)] = self.of(other)
