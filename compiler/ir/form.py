"""The replacement of one node, written before shapes are known."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from onnx import NodeProto, helper

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import attributes_of
from compiler.ir.own_nodes import NEEDS


class Form:
    """The nodes that replace one, all of them with its name."""

    def __init__(self, node: NodeProto, opset: int) -> None:
        self.node, self.opset = node, opset
        self.nodes: list[NodeProto] = []
        self.attributes = attributes_of(node)

    def refuse(self, reason: str) -> NoReturn:
        """Raises ModelError."""
        raise ModelError(f"node {node_name(self.node)!r} ({self.node.op_type}) {reason}")

    def given(self, at: int) -> str:
        """Input ``at``, or an empty name when it is left out."""
        return self.node.input[at] if at < len(self.node.input) else ""

    def needed(self, at: int) -> str:
        """Input ``at``; raises ModelError when it is left out."""
        if not self.given(at):
            self.refuse(f"has no input {at}")
        return self.given(at)

    def add(self, op: str, inputs: list[str], **attributes: Any) -> str:
        """Add a node; its output."""
        return self.add_all(op, inputs, 1, **attributes)[0]

    def gathered(self, table: str, places: str, what: str, axis: int = 0) -> str:
        """What lies at ``places``; they are ``what`` to the node, and a run ends by one that is not there."""
        found = self.add("Gather", [table, places], axis=axis)
        who = f"node {node_name(self.node)!r} ({self.node.op_type})"
        self.nodes[-1].metadata_props.add(key=NEEDS, value=json.dumps([who, what]))
        return found

    def add_all(self, op: str, inputs: list[str], count: int, **attributes: Any) -> list[str]:
        """Add a node of ``count`` outputs; these."""
        start = f"{self.node.output[0]}/{self.node.op_type}{len(self.nodes)}"
        outputs = [f"{start}.{i}" if i else start for i in range(count)]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=node_name(self.node), **attributes))
        return outputs
