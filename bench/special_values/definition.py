"""The model by which results are judged: onnxruntime without optimisations computes it.

onnxruntime loses a NaN in maxima at some places, a Relu in a recurrent cell among them, and its LRN spreads a
NaN to all later channels. So a maximum gets a second term here, which is NaN where an operand is, such a cell
is an Elu by 0, which is the same of all numbers, and LRN is written by its formula.
"""

from __future__ import annotations

from onnx import NodeProto, helper

from bench.special_values.branch import Branch

_TERMS = {
    "Max": "Sum",
    "Min": "Sum",
    "ReduceMax": "ReduceSum",
    "ReduceMin": "ReduceSum",
    "MaxPool": "AveragePool",
    "GlobalMaxPool": "GlobalAveragePool",
}
"""For each operator that loses a NaN: one that makes zeros of zeros, and NaN where an operand is NaN."""


def defined(branch: Branch) -> list[NodeProto]:
    """The nodes of ``branch`` that say what is right."""
    written = Branch(f"{branch.prefix}_d", branch.dtype, branch.rng)
    for node in branch.nodes:
        if node.op_type in _TERMS:
            _keep(written, node)
        elif node.op_type == "RNN" and any(list(each.strings) == [b"Relu"] for each in node.attribute):
            said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
            said |= {"activations": ["Elu"], "activation_alpha": [0.0]}
            written.nodes.append(helper.make_node("RNN", node.input, node.output, node.name, **said))
        elif node.op_type == "LRN":
            _normalise(written, node)
        elif node.op_type == "ScatterElements" and any(each.s in (b"max", b"min") for each in node.attribute):
            _scatter(written, node)
        else:
            written.nodes.append(node)
    branch.constants += written.constants
    return written.nodes


def _keep(b: Branch, node: NodeProto) -> None:
    floats = node.input[:1] if node.op_type.startswith("Reduce") else node.input
    zeros = [b.node("Where", b.node("IsNaN", x), x, b.const(0.0)) for x in floats]
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    lost = b.node(node.op_type, *node.input, **attributes)
    term = b.node(_TERMS[node.op_type], *zeros, *node.input[len(floats) :], **attributes)
    b.nodes.append(helper.make_node("Add", [lost, term], node.output))


def _scatter(b: Branch, node: NodeProto) -> None:
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    lost = b.node(node.op_type, *node.input, **attributes)
    data, places, updates = node.input
    zeros = [b.node("Where", b.node("IsNaN", x), x, b.const(0.0)) for x in (data, updates)]
    term = b.node(node.op_type, zeros[0], places, zeros[1], **attributes | {"reduction": "add"})
    b.nodes.append(helper.make_node("Add", [lost, term], node.output))


def _normalise(b: Branch, node: NodeProto) -> None:
    """LRN of an image, of 8 channels on 5 x 6 pixels."""
    said = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    (x,) = node.input
    before = (said["size"] - 1) // 2
    pads = [before, 0, said["size"] - 1 - before, 0]
    square = b.node("Reshape", b.node("Mul", x, x), b.whole(1, 1, 8, 30))
    mean = b.node("AveragePool", square, kernel_shape=[said["size"], 1], pads=pads, count_include_pad=1)
    scaled = b.node("Mul", b.node("Reshape", mean, b.whole(1, 8, 5, 6)), b.const(said["alpha"]))
    power = b.node("Pow", b.node("Add", scaled, b.const(1.0)), b.const(said.get("beta", 0.75)))
    b.nodes.append(helper.make_node("Div", [x, power], node.output))
