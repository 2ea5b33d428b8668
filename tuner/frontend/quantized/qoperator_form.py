"""Quantized operators rewritten to QDQ form: DequantizeLinear, a float operator, QuantizeLinear.

ONNX has QLinearConv and QLinearMatMul; onnxruntime's quantizer writes more of the kind, in its own domain
``com.microsoft``. Once they are rewritten there is one form to understand, and nothing but standard ONNX.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, helper

from tuner.frontend.onnx_check import ModelError, node_name

MICROSOFT = "com.microsoft"
PER_AXIS_OPSET = 13
"""From which operator set on DequantizeLinear knows scales along an axis."""


def to_qdq_form(model: ModelProto) -> None:
    """Replace the nodes that ``RULES`` knows, in place; all others stay, and may be refused later.

    Raises ModelError for a node that lacks inputs or has something that QDQ form cannot say.
    """
    nodes = list(model.graph.node)
    if not any(_kind(node) in RULES for node in nodes):
        return
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in model.graph.initializer}
    for node in nodes:
        if node.op_type == "Constant" and any(a.name in ("value", "value_float") for a in node.attribute):
            sizes |= dict.fromkeys(node.output, math.prod(node.attribute[0].t.dims))
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    del model.graph.node[:]
    for node in nodes:
        rule = RULES.get(_kind(node))
        if rule is None:
            model.graph.node.append(node)
            continue
        form = _Form(node, sizes, opset)
        rule(form)
        model.graph.node.extend(form.nodes)


def _kind(node: NodeProto) -> tuple[str, str]:
    return ("" if node.domain == "ai.onnx" else node.domain), node.op_type


class _Form:
    """The nodes that replace one, all of them with its name."""

    def __init__(self, node: NodeProto, sizes: dict[str, int], opset: int) -> None:
        self.node = node
        self.nodes: list[NodeProto] = []
        self.sizes, self.opset = sizes, opset
        self.attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if len(node.output) != 1 or not node.output[0]:
            self.refuse("must have one output")
        if self.attributes.pop("channels_last", 0):
            self.refuse("has its channels last; only ONNX's own order of axes is supported")

    def refuse(self, reason: str) -> None:
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
        output = f"{self.node.output[0]}/{self.node.op_type}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], name=node_name(self.node), **attributes))
        return output

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


Rule = Callable[[_Form], None]


def _convolution(form: _Form) -> None:
    inputs = [form.real(0), form.real(3, axis=0)]
    if form.given(8):
        scale = _bias_scale(form, 1, 4)
        inputs.append(form.dequantized(form.needed(8), scale, ""))
    form.finish(form.add("Conv", inputs, **form.attributes), 6)


def _bias_scale(form: _Form, data: int, weights: int) -> str:
    """The product of two scales, one for each of the larger's entries."""
    output = form.add("Mul", [form.needed(data), form.needed(weights)])
    sizes = form.sizes
    if form.needed(data) in sizes and form.needed(weights) in sizes:
        sizes[output] = max(sizes[form.needed(data)], sizes[form.needed(weights)])
    return output


def _matmul(form: _Form) -> None:
    form.finish(form.add("MatMul", [form.real(0, axis=-2), form.real(3, axis=-1)]), 6)


def _gemm(form: _Form) -> None:
    turned = form.attributes.get("transB", 0)
    inputs = [form.real(0, axis=-2), form.real(3, axis=0 if turned else 1)]
    if form.given(6):
        scale, alpha = _bias_scale(form, 1, 4), form.attributes.get("alpha", 1.0)
        if alpha != 1.0:
            factor = form.add("Constant", [], value=helper.make_tensor("", TensorProto.FLOAT, [], [alpha]))
            size = form.sizes.get(scale)
            scale = form.add("Mul", [scale, factor])
            form.sizes |= {scale: size} if size else {}
        inputs.append(form.dequantized(form.needed(6), scale, "", axis=-1))
    if form.given(7):
        form.finish(form.add("Gemm", inputs, **form.attributes), 7)
    else:
        form.add("Gemm", inputs, **form.attributes)
        form.nodes[-1].output[0] = form.node.output[0]


def _unary(op: str) -> Rule:
    def rule(form: _Form) -> None:
        form.finish(form.add(op, [form.real(0)], **form.attributes), 3)

    return rule


def _binary(op: str) -> Rule:
    def rule(form: _Form) -> None:
        form.finish(form.add(op, [form.real(0), form.real(3)]), 6)

    return rule


def _softmax(form: _Form) -> None:
    # Before operator set 13 it is over all axes from ``axis`` on, which the model's own set decides.
    older = form.attributes.pop("opset", form.opset) < PER_AXIS_OPSET
    if older != (form.opset < PER_AXIS_OPSET) and form.attributes.get("axis") != -1:
        form.refuse("is of another operator set than the model")
    _unary("Softmax")(form)


def _concat(form: _Form) -> None:
    inputs = [form.real(at) for at in range(2, len(form.node.input), 3)]
    form.finish(form.add("Concat", inputs, **form.attributes), 0)


def _standard(form: _Form) -> None:
    """The same operator exists in ONNX."""
    form.nodes.append(form.node)
    form.node.domain = ""


RULES: dict[tuple[str, str], Rule] = {
    ("", "QLinearConv"): _convolution,
    ("", "QLinearMatMul"): _matmul,
    (MICROSOFT, "QLinearConv"): _convolution,
    (MICROSOFT, "QGemm"): _gemm,
    (MICROSOFT, "QLinearAdd"): _binary("Add"),
    (MICROSOFT, "QLinearMul"): _binary("Mul"),
    (MICROSOFT, "QLinearAveragePool"): _unary("AveragePool"),
    (MICROSOFT, "QLinearGlobalAveragePool"): _unary("GlobalAveragePool"),
    (MICROSOFT, "QLinearSigmoid"): _unary("Sigmoid"),
    (MICROSOFT, "QLinearLeakyRelu"): _unary("LeakyRelu"),
    (MICROSOFT, "QLinearSoftmax"): _softmax,
    (MICROSOFT, "QLinearConcat"): _concat,
    (MICROSOFT, "QuantizeLinear"): _standard,
    (MICROSOFT, "DequantizeLinear"): _standard,
}
