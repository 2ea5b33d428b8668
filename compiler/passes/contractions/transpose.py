"""Rewrite W.X with few columns as (X^T.W^T)^T, so that the constant is the weights operand."""

from __future__ import annotations

from collections.abc import Set
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.graph import OnnxGraph, TensorInfo, attributes_of
from compiler.passes.epilogues.epilogue import Wiring

FEWEST_COLUMNS, FEWEST_IN_ALL = 16, 49
"""A batch of products of so many columns each, and in all, is as fast as it stands."""


def transpose_products(graph: OnnxGraph) -> None:
    """Write MatMuls of float32 with a constant on the left so, with the transposes around them."""
    wiring, gone, made = Wiring.of(graph), set[str](), dict[str, list[NodeProto]]()
    weights: dict[str, str] = {}
    for node in graph.nodes:
        if _is_wanted(graph, node):
            last = wiring.only_reader(node.output[0])
            if last is not None and last.op_type == "Transpose":
                gone.add(node.output[0])
            else:
                last = node
            made[last.output[0]] = _Turning(graph, wiring, node, weights).nodes(last, gone)
    graph.nodes = [
        new
        for node in graph.nodes
        for new in made.get(node.output[0], [] if node.output[0] in gone else [node])
    ]


def _is_wanted(graph: OnnxGraph, node: NodeProto) -> bool:
    """Whether it is such a product, and only one side is a batch."""
    if node.op_type != "MatMul" or node.input[1] in graph.constants:
        return False
    weights = graph.constants.get(node.input[0])
    if weights is None or weights.dtype != np.float32 or not weights.size:
        return False
    shape = graph.tensors[node.input[1]].shape
    if min(weights.ndim, len(shape)) < 2 or 0 in shape:
        return False
    if shape[-1] >= FEWEST_COLUMNS and prod(shape) // shape[-2] >= FEWEST_IN_ALL:
        return False
    return _is_alone(weights.shape, shape) or _is_alone(shape, weights.shape)


def _is_alone(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether an operand is one matrix for all of the other's batch."""
    return prod(shape[:-2]) == 1 and len(shape) <= len(other)


class _Turning:
    """What replaces one MatMul; ``weights`` are those that are transposed already."""

    def __init__(self, graph: OnnxGraph, wiring: Wiring, node: NodeProto, weights: dict[str, str]) -> None:
        self._graph, self._wiring, self._node, self._weights = graph, wiring, node, weights
        self._made: list[NodeProto] = []

    def nodes(self, last: NodeProto, gone: Set[str]) -> list[NodeProto]:
        """All nodes; the last one writes what ``last`` did: the MatMul, or the only Transpose behind it.

        They do not read what is ``gone``.
        """
        graph, node = self._graph, self._node
        left, right = node.input
        matrices, shape = graph.constants[left].shape, graph.tensors[right].shape
        columns, rank = shape[-1], len(graph.tensors[node.output[0]].shape)
        rows = self._rows(right, shape, gone)
        found = (*shape[:-2], columns, prod(matrices[:-1]))
        product = self._add("MatMul", [rows, self._constant(left)], found)
        order = _swapped(rank)
        if _is_alone(shape, matrices):
            found, order = (columns, *matrices[:-1]), [*range(1, rank), 0]
        if last is not node:
            turn: list[int] = attributes_of(last).get("perm", list(reversed(range(rank))))
            order = [order[axis] for axis in turn]
        wanted = graph.tensors[last.output[0]].shape
        moved = [axis for axis in order if found[axis] > 1]
        if moved == sorted(moved):
            self._reshaped(product, wanted)
        else:
            self._add("Transpose", [self._reshaped(product, found)], wanted, perm=order)
        self._made[-1].output[0] = last.output[0]
        return self._made

    def _rows(self, name: str, shape: tuple[int, ...], gone: Set[str]) -> str:
        """The columns as rows."""
        turned = (*shape[:-2], shape[-1], shape[-2])
        if shape[-1] == 1:
            return self._reshaped(name, turned)
        before = self._wiring.writers.get(name)
        if before is not None and before.op_type == "Transpose" and before.input[0] not in gone:
            perm: list[int] = attributes_of(before).get("perm", list(reversed(range(len(shape)))))
            if perm == _swapped(len(shape)):
                return str(before.input[0])
        return self._add("Transpose", [name], turned, perm=_swapped(len(shape)))

    def _constant(self, name: str) -> str:
        if name not in self._weights:
            matrices = self._graph.constants[name]
            value = np.ascontiguousarray(matrices.reshape(-1, matrices.shape[-1]).T)
            self._weights[name] = self._graph.constant(f"{name}/transposed", value)
        return self._weights[name]

    def _reshaped(self, name: str, shape: tuple[int, ...]) -> str:
        if self._graph.tensors[name].shape == shape:
            return name
        target = self._graph.constant(f"{self._node.output[0]}/shape", np.array(shape, np.int64))
        return self._add("Reshape", [name, target], shape)

    def _add(self, op: str, inputs: list[str], shape: tuple[int, ...], **attributes: Any) -> str:
        """Add a node that makes a tensor of ``shape``; its name."""
        name = self._graph.fresh(f"{self._node.output[0]}/turned")
        self._graph.tensors[name] = TensorInfo(shape, self._graph.tensors[self._node.output[0]].elem_type)
        self._made.append(helper.make_node(op, inputs, [name], name=node_name(self._node), **attributes))
        return name


def _swapped(rank: int) -> list[int]:
    """The order of axes that transposes matrices."""
    return [*range(rank - 2), rank - 1, rank - 2]
