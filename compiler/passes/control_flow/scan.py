"""A Scan with turns that do not depend on one another, as plain nodes that compute all of them at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto, NodeProto, numpy_helper

from compiler.ir.checks import nested, node_name
from compiler.ir.graph import Array, TensorInfo, attributes_of
from compiler.ir.names import fresh, reads
from compiler.passes.control_flow.inline import Written

ELEMENTWISE = {"Abs", "Add", "Cast", "Div", "Exp", "Identity", "Log", "Max", "Min", "Mul", "Neg", "Pow"}
ELEMENTWISE |= {"Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sub", "Tanh"}
REDUCTIONS = {"ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "ReduceSumSquare"}
AXES_AS_INPUTS = 13
"""The version of Unsqueeze that takes them so."""


def at_once(
    node: NodeProto, opset: int, tensors: Mapping[str, TensorInfo], taken: set[str]
) -> Written | None:
    """The turns of the Scan ``node`` along a new first axis; None where its body has other operators.

    So a converter writes the distances of all rows to some rows: a turn for each of those.
    """
    said = attributes_of(node)
    many = said["num_scan_inputs"]
    states = len(node.input) - many
    body = next(nested(node))
    if any(
        value for name, values in said.items() if "directions" in name or "axes" in name for value in values
    ):
        return None
    if any(name not in tensors for name in node.input) or len(node.output) != len(body.output):
        return None
    constants = {tensor.name: len(tensor.dims) for tensor in body.initializer}
    ranks = {name: len(info.shape) for name, info in tensors.items()} | constants
    ranks |= {
        value.name: len(tensors[name].shape) for value, name in zip(body.input, node.input, strict=True)
    }
    turns = _Turns(node, opset, taken, ranks)
    for value, name in zip(body.input, node.input, strict=True):
        turns.names[value.name] = name
    for value in body.input[states:]:
        turns.ranks[value.name] -= 1
        turns.varying.add(value.name)
    return turns.written if turns.write(body, states) else None


@dataclass
class _Turns:
    node: NodeProto
    opset: int
    taken: set[str]
    ranks: dict[str, int]
    """Of each value in one turn."""
    names: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    varying: set[str] = field(default_factory=set)
    """What each turn has its own of, along a first axis."""
    written: Written = field(default_factory=Written)

    def write(self, body: GraphProto, states: int) -> bool:
        """Write the nodes of ``body``; whether all could be."""
        for tensor in body.initializer:
            value = numpy_helper.to_array(tensor)
            self.names[tensor.name], self.constants[tensor.name] = self._fresh(tensor.name), value
            self.written.constants.append(numpy_helper.from_array(value, self.names[tensor.name]))
        if not all(self._add(each) for each in body.node):
            return False
        for place, (value, name) in enumerate(zip(body.output, self.node.output, strict=True)):
            # A state that changes makes the turns depend on one another.
            unchanged = place < states and self.names.get(value.name) == self.node.input[place]
            if not (unchanged or (place >= states and value.name in self.varying)):
                return False
            if name:
                self.written.node("Identity", [self.names[value.name]], name, self.node)
        return True

    def _add(self, each: NodeProto) -> bool:
        if list(nested(each)) or len(each.output) != 1 or any(name not in self.ranks for name in reads(each)):
            return False
        result, attributes = each.output[0], attributes_of(each)
        rank = max(self.ranks[name] for name in each.input)
        if each.op_type == "Identity":
            self.names[result], self.ranks[result] = self._name(each.input[0]), rank
            self.varying.update([result] if each.input[0] in self.varying else [])
            return True
        if each.op_type in ELEMENTWISE and self.varying.intersection(each.input):
            inputs = [self._wide(name, rank) for name in each.input]
        elif each.op_type in REDUCTIONS and each.input[0] in self.varying:
            axes = attributes.get("axes") or self.constants.get("".join(each.input[1:]))
            if axes is None:
                return False
            # There is one axis more before those that are counted from the front.
            moved = [int(axis) + (axis >= 0) for axis in axes]
            inputs = [self._name(each.input[0])]
            if "axes" in attributes:
                attributes["axes"] = moved
            else:
                inputs.append(self._constant(moved))
            rank = self.ranks[each.input[0]] - (0 if attributes.get("keepdims", 1) else len(moved))
        else:
            return False
        self.names[result], self.ranks[result] = self._fresh(result), rank
        self.varying.add(result)
        self.written.node(each.op_type, inputs, self.names[result], self.node, **attributes)
        return True

    def _wide(self, name: str, rank: int) -> str:
        """``name`` such that its first axis stays the turns' beside values of ``rank`` in a turn."""
        axes = list(range(1, 1 + rank - self.ranks[name]))
        if name not in self.varying or not axes:
            return self._name(name)
        wide = self._fresh(f"{name}/wide")
        if self.opset < AXES_AS_INPUTS:
            self.written.node("Unsqueeze", [self._name(name)], wide, self.node, axes=axes)
        else:
            self.written.node("Unsqueeze", [self._name(name), self._constant(axes)], wide, self.node)
        return wide

    def _name(self, name: str) -> str:
        return self.names.get(name, name)

    def _constant(self, value: list[int]) -> str:
        name = self._fresh("constant")
        self.written.constants.append(numpy_helper.from_array(np.array(value, np.int64), name))
        return name

    def _fresh(self, name: str) -> str:
        return fresh(f"{node_name(self.node)}/{name}", self.taken)
