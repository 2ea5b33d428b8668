"""Operators on bytes, as QLinearConv, in QDQ form: DequantizeLinear, a float operator, QuantizeLinear.

ONNX has QLinearConv and QLinearMatMul; onnxruntime's quantizer writes more of the kind, in its own domain
``com.microsoft``. Once they are rewritten there is one form to understand, and nothing but standard ONNX.
"""

from __future__ import annotations

from collections.abc import Callable

from onnx import NodeProto, helper

from tuner.frontend.form import Form
from tuner.frontend.onnx_check import node_name

MICROSOFT = "com.microsoft"
PER_AXIS_OPSET = 13
"""From which operator set on DequantizeLinear knows scales along an axis."""


class Expansion(Form):
    """The nodes on floats that replace one on bytes."""

    def __init__(self, node: NodeProto, sizes: dict[str, int], opset: int) -> None:
        super().__init__(node, opset)
        self.sizes = sizes
        if len(node.output) != 1 or not node.output[0]:
            self.refuse("must have one output")
        if self.attributes.pop("channels_last", 0):
            self.refuse("has its channels last; only ONNX's own order of axes is supported")

    def real(self, at: int, axis: int = 0) -> str:
        """Inputs ``at`` to ``at + 2`` (quanta, scale, zero point) as a float tensor."""
        return self.dequantized(self.needed(at), self.needed(at + 1), self.given(at + 2), axis)

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
        inputs = [real, self.needed(at), self.needed(at + 1)]
        name = node_name(self.node)
        self.nodes.append(helper.make_node("QuantizeLinear", inputs, list(self.node.output), name=name))


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
