"""The replacement of one node, written with known shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper

from compiler.analysis.bounds import is_within, needs
from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import Array, OnnxGraph, TensorInfo, attributes_of
from compiler.ir.own_nodes import BOUNDED


class Writer:
    """Writes nodes named like ``node``, in the form that they have in the newest operator set."""

    def __init__(self, graph: OnnxGraph, node: NodeProto) -> None:
        self.graph, self.node = graph, node
        self.nodes: list[NodeProto] = []
        self.attributes: dict[str, Any] = attributes_of(node)

    def info(self, place: int) -> TensorInfo:
        """Shape and type of an operand."""
        return self.graph.tensors[self.node.input[place]]

    def has(self, place: int) -> bool:
        """Whether there is such an operand."""
        return len(self.node.input) > place and bool(self.node.input[place])

    def value(self, place: int) -> Array | None:
        """A constant operand; None where it is left out or computed."""
        return self.graph.constants.get(self.node.input[place]) if self.has(place) else None

    def constant(self, value: Array) -> str:
        """A new constant of the graph; its name."""
        return self.graph.constant(f"{self.node.output[0]}/constant", value)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Write a node; the name of its one result."""
        return self.add_all(op, inputs, 1, **attributes)[0]

    def add_all(self, op: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Write a node of ``count`` results; their names."""
        start = self.graph.fresh(f"{self.node.output[0]}/{op}")
        outputs = [start, *(self.graph.fresh(f"{start}/{place}") for place in range(1, count))]
        made = helper.make_node(op, inputs, outputs, name=node_name(self.node), **attributes)
        types = {n: helper.make_tensor_type_proto(i.elem_type, i.shape) for n, i in self._infos(inputs)}
        known = {n: self.graph.constants[n] for n in inputs if n in self.graph.constants}
        data = {n: numpy_helper.from_array(value) for n, value in known.items() if value.ndim == 1}
        found = onnx.shape_inference.infer_node_outputs(onnx.defs.get_schema(op), made, types, data)
        for output in outputs:
            kind = found[output].tensor_type
            shape = tuple(dim.dim_value for dim in kind.shape.dim)
            self.graph.tensors[output] = TensorInfo(shape, kind.elem_type)
        self.nodes.append(made)
        return outputs

    def like(self, op: str, data: str = "") -> str:
        """Write ``op`` of ``data`` with the node's other operands, its attributes and the shape it has."""
        output = self.graph.fresh(f"{self.node.output[0]}/{op}")
        inputs = [data or self.node.input[0], *self.node.input[1:]]
        made = helper.make_node(op, inputs, [output], name=node_name(self.node), **self.attributes)
        shape = self.graph.tensors[self.node.output[0]].shape
        self.graph.tensors[output] = TensorInfo(shape, self.graph.tensors[inputs[0]].elem_type)
        self.nodes.append(made)
        return output

    def finish(self, op: str, *inputs: str, **attributes: Any) -> None:
        """Write the node that makes the result, which is known already."""
        name, output = node_name(self.node), self.node.output[0]
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))

    def with_attributes(self, **attributes: Any) -> None:
        """Write the node with these attributes in place of some of its own; None drops one."""
        made = helper.make_node(self.node.op_type, self.node.input, self.node.output, name=self.node.name)
        for name, value in {**self.attributes, **attributes}.items():
            if value is not None:
                made.attribute.append(helper.make_attribute(name, value))
        self.nodes.append(made)

    def with_operands(self, *inputs: str) -> None:
        """Write the node with these operands in place of its own."""
        made = helper.make_node(self.node.op_type, inputs, self.node.output, name=self.node.name)
        made.attribute.extend(self.node.attribute)
        self.nodes.append(made)

    def bounded(self, name: str, low: int, high: int, what: str) -> str:
        """``name``, whole numbers from ``low`` to ``high``: with others for ``what`` a run ends.

        Where ``low`` is above ``high``, those between them are the others.
        """
        known = self.graph.constants.get(name)
        if known is not None:
            for number in np.unique(known).tolist():
                if not is_within(number, number, low, high):
                    self.refuse(f"needs {what} {needs(low, high)}, and the model has {number}")
            return name
        output = self.graph.fresh(f"{self.node.output[0]}/bounded")
        who = f"node {node_name(self.node)!r} ({self.node.op_type})"
        made = helper.make_node(
            BOUNDED, [name], [output], node_name(self.node), low=low, high=high, who=who, what=what
        )
        self.graph.tensors[output] = self.graph.tensors[name]
        self.nodes.append(made)
        return output

    def refuse(self, reason: str) -> NoReturn:
        """Raise ModelError that names the node."""
        raise ModelError(f"node {node_name(self.node)!r} ({self.node.op_type}) {reason}")

    def _infos(self, names: Sequence[str]) -> list[tuple[str, TensorInfo]]:
        return [(name, self.graph.tensors[name]) for name in names if name]


def vector(*values: int) -> Array:
    """Integers as operators take them: shapes, axes."""
    return np.array(values, np.int64)
