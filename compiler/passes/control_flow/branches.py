"""Branches: an If becomes the branch that it takes, or both and a choice where data decide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn

import numpy as np
from onnx import GraphProto, NodeProto, numpy_helper

from compiler.analysis.bounds import INDICES
from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import Array, TensorInfo
from compiler.ir.names import fresh
from compiler.passes.control_flow.inline import Written, inline

DIVIDING = ("Div", "Mod")
"""Operators that end the process where they divide an integer by zero."""


class Choice:
    """Both branches of an If, and a Where for each result."""

    def __init__(self, node: NodeProto, taken: set[str]) -> None:
        self.node = node
        self.written = Written()
        self.results: list[tuple[str, ...]] = []
        sides = []
        for wanted in ("then_branch", "else_branch"):
            branch = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
            side = NodeProto()
            side.CopyFrom(node)
            side.name = f"{node_name(node)}/{wanted}"
            side.output[:] = [name and fresh(f"{name}/{wanted}", taken) for name in node.output]
            self.written.add(inlined(side, branch, taken))
            sides.append(side)
        self.inside = list(self.written.nodes)
        shape, condition = (fresh(f"{node_name(node)}/{name}", taken) for name in ("shape", "condition"))
        self.written.constants.append(numpy_helper.from_array(np.zeros(0, np.int64), shape))
        self.written.node("Reshape", [node.input[0], shape], condition, node)
        for name, *both in zip(node.output, *(side.output for side in sides), strict=True):
            if name:
                self.results.append((name, *both))
                self.written.node("Where", [condition, *both], name, node)

    def check(self, known: Mapping[str, Array], tensors: Mapping[str, TensorInfo]) -> None:
        """Raise ModelError unless both branches can always be computed, and their results are alike."""
        for node in self.inside:
            index = node.op_type in INDICES and node.input[INDICES[node.op_type]] not in known
            divisor = tensors.get(node.input[1]) if node.op_type in DIVIDING else None
            if index or (divisor and "int" in divisor.dtype and node.input[1] not in known):
                self._refuse(
                    f"node {node_name(node)!r} ({node.op_type}) may only be computed where it is taken"
                )
        for name, *both in self.results:
            then, otherwise = (tensors.get(each) for each in both)
            # Of one number each they are alike to whatever reads them, though one may have more axes.
            if then is None or otherwise is None or _alike(then) != _alike(otherwise):
                self._refuse(f"its branches make {name!r} of different shapes or types")

    def _refuse(self, reason: str) -> NoReturn:
        raise ModelError(
            f"node {node_name(self.node)!r} (If) depends on data, so both branches would be computed, and "
            f"{reason}; export the model with one of the branches"
        )


def _alike(info: TensorInfo) -> tuple[tuple[int, ...], int]:
    return (() if math.prod(info.shape) == 1 else info.shape), info.elem_type


def inlined(node: NodeProto, branch: GraphProto, taken: set[str]) -> Written:
    """The nodes of ``branch`` in the place of the If ``node``."""
    if len(branch.output) != len(node.output):
        raise ModelError(f"node {node_name(node)!r} (If) has a branch of {len(branch.output)} results")
    return inline(node, branch, list(node.output), taken)


def branch_of(node: NodeProto, condition: Array) -> GraphProto:
    """The branch that an If takes."""
    if condition.size != 1:
        raise ModelError(f"node {node_name(node)!r} (If) has a condition of {condition.size} elements")
    wanted = "then_branch" if condition.reshape(())[()] else "else_branch"
    graph: GraphProto = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
    return graph
