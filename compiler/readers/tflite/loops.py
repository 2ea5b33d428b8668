"""WHILE as ONNX's Loop (its body ends with the condition of the next turn), and IF as its If."""

from __future__ import annotations

from onnx import GraphProto, NodeProto, TensorProto, helper

from compiler.ir.checks import ModelError
from compiler.passes.control_flow.inline import Written, inline
from compiler.readers.tflite.file import Operator
from compiler.readers.tflite.writer import FILE, Writer

LOOP, CHOICE = "WHILE", "IF"


def loop(writer: Writer, op: Operator, condition: GraphProto, body: GraphProto) -> None:
    """Write ``op`` with these graphs; raises ModelError where they do not go with it."""
    if len(condition.output) != 1 or len(body.output) != len(op.outputs) or len(op.inputs) != len(op.outputs):
        raise ModelError("its condition and body have other results than it has")
    label, many = writer.nodes.name(f"{op.name}/loop"), range(len(op.outputs))
    around = helper.make_node("Loop", [], [f"{label}/{at}" for at in many], name=label)
    states = [writer.stored(index, FILE) for index in op.inputs]
    enters = _inlined(around, condition, f"{label}/enters", states)
    writer.nodes.nodes += enters.nodes
    writer.nodes.initializers += enters.constants
    before, after = ([f"{label}/{when}{at}" for at in many] for when in ("before", "after"))
    written = _inlined(around, body, f"{label}/body", before, after)
    written.add(_inlined(around, condition, f"{label}/again", after))
    counters = [
        helper.make_tensor_value_info(f"{label}/turn", TensorProto.INT64, []),
        helper.make_tensor_value_info(f"{label}/going", TensorProto.BOOL, []),
    ]
    for value, name in zip(body.input, before, strict=True):
        value.name = name
    results = [helper.make_empty_tensor_value_info(name) for name in (f"{label}/again", *after)]
    inner = helper.make_graph(written.nodes, "body", [*counters, *body.input], results, written.constants)
    around.input.extend(["", f"{label}/enters", *states])
    around.attribute.append(helper.make_attribute("body", inner))
    writer.nodes.nodes.append(around)
    for index, name in zip(op.outputs, around.output, strict=True):
        writer.write(index, FILE, name, [])


def choice(writer: Writer, op: Operator, *branches: GraphProto) -> None:
    """Write ``op`` as an If with these two branches."""
    label = writer.nodes.name(f"{op.name}/choice")
    names = [f"{label}/{at}" for at in range(len(op.outputs))]
    node = helper.make_node("If", [writer.stored(op.inputs[0], FILE)], names, name=label)
    given = [writer.stored(index, FILE) for index in op.inputs[1:]]
    for which, branch in zip(("then", "else"), branches, strict=True):
        ends = [f"{label}/{which}/{at}" for at in range(len(names))]
        written = _inlined(node, branch, f"{label}/{which}", given, ends)
        results = [helper.make_empty_tensor_value_info(name) for name in ends]
        graph = helper.make_graph(written.nodes, which, [], results, written.constants)
        node.attribute.append(helper.make_attribute(f"{which}_branch", graph))
    writer.nodes.nodes.append(node)
    for index, name in zip(op.outputs, names, strict=True):
        writer.write(index, FILE, name, [])


def _inlined(
    around: NodeProto, graph: GraphProto, label: str, inputs: list[str], outputs: list[str] | None = None
) -> Written:
    """The nodes of ``graph`` with all its names below ``label``, as its one result is called by default."""
    given = {value.name: name for value, name in zip(graph.input, inputs, strict=True)}
    return inline(around, graph, outputs or [label], set(), given, prefix=label)
