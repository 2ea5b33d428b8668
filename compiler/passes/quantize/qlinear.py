"""Operators on bytes, as QLinearConv, in QDQ form: DequantizeLinear, a float operator, QuantizeLinear.

ONNX has QLinearConv and QLinearMatMul; onnxruntime's quantizer writes more of the kind, in its own domain
``com.microsoft``. Once they are rewritten there is one form to understand, and nothing but standard ONNX.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from onnx import NodeProto, helper

from compiler.ir.checks import node_name
from compiler.ir.form import Form

MICROSOFT = "com.microsoft"
PER_AXIS_OPSET = 13
"""From which operator set on DequantizeLinear knows scales along an axis."""


@dataclass
class Known:
    """What the nodes written so far say: how many elements constants have, how many axes some tensors.

    ``turned`` are tensors with their channels last, each with its bytes in ONNX's order.
    """

    opset: int
    sizes: dict[str, int]
    ranks: dict[str, int]
    turned: dict[str, str] = field(default_factory=dict)


class Expansion(Form):
    """The nodes on floats that replace one on bytes."""

    def __init__(self, node: NodeProto, known: Known) -> None:
        super().__init__(node, known.opset)
        self.sizes, self._known = known.sizes, known
        if len(node.output) != 1 or not node.output[0]:
            self.refuse("must have one output")
        self._last = bool(self.attributes.pop("channels_last", node.op_type.startswith("Nhwc")))

    def real(self, at: int, axis: int = 0) -> str:
        """Inputs ``at`` to ``at + 2`` (quanta, scale, zero point) as a float tensor."""
        quanta = self.needed(at) if at else self.data()
        return self.dequantized(quanta, self.needed(at + 1), self.given(at + 2), axis)

    def data(self) -> str:
        """The bytes of input 0, their channels as ONNX has them: second."""
        name = self.needed(0)
        if not self._last:
            return name
        if name not in self._known.turned:
            rank = self._rank()
            self._known.turned[name] = self.add("Transpose", [name], perm=[0, rank - 1, *range(1, rank - 1)])
        return self._known.turned[name]

    def _rank(self) -> int:
        if "kernel_shape" in self.attributes:
            return len(self.attributes["kernel_shape"]) + 2
        of = self.given(3) if self.node.op_type == "QLinearConv" else self.given(0)
        # Of images where nothing says: others do not fit then, which is seen.
        return self._known.ranks.get(of, 4)

    def dequantized(self, quanta: str, scale: str, zero: str, axis: int = 0) -> str:
        """Quanta as a float tensor, with scales along ``axis`` if there are several."""
        inputs = [quanta, scale] + ([zero] if zero else [])
        if self.sizes.get(scale, 0) == 1:
            return self.add("DequantizeLinear", inputs)
        if self.opset < PER_AXIS_OPSET:
            self.refuse(
                f"has a scale for each channel, which needs operator set {PER_AXIS_OPSET}: "
                "convert the model (onnx.version_converter.convert_version)"
            )
        return self.add("DequantizeLinear", inputs, axis=axis)

    def finish(self, real: str, at: int) -> None:
        """Quantize ``real`` by inputs ``at`` (scale) and ``at + 1`` (zero point) to the node's output."""
        self.write("QuantizeLinear", [real, self.needed(at), self.needed(at + 1)])

    def write(self, op: str, inputs: list[str], **attributes: Any) -> None:
        """Add the node that makes the output's bytes, in the order of axes that they have."""
        name, result = node_name(self.node), self.node.output[0]
        if not self._last:
            self.nodes.append(helper.make_node(op, inputs, [result], name=name, **attributes))
            return
        made, rank = self.add(op, inputs, **attributes), self._rank()
        self._known.turned[result], self._known.ranks[result] = made, rank
        perm = [0, *range(2, rank), 1]
        self.nodes.append(helper.make_node("Transpose", [made], [result], name=name, perm=perm))


Expand = Callable[[Expansion], None]
"""Writes the nodes; raises ModelError for a node that lacks inputs or has what QDQ form cannot say."""


def unary(op: str) -> Expand:
    """``op`` of one tensor."""

    def expand(form: Expansion) -> None:
        form.finish(form.add(op, [form.real(0)], **form.attributes), 3)

    return expand


def binary(op: str) -> Expand:
    """``op`` of two tensors."""

    def expand(form: Expansion) -> None:
        form.finish(form.add(op, [form.real(0), form.real(3)]), 6)

    return expand


def standard(form: Expansion) -> None:
    """The same operator exists in ONNX."""
    form.nodes.append(form.node)
    form.node.domain = ""
