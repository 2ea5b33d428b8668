"""An If with one costly branch, as a Loop of at most one turn: the branch is computed only if taken."""

from __future__ import annotations

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from compiler.analysis.bounds import INDICES
from compiler.ir.checks import graphs_of, node_name
from compiler.ir.names import fresh
from compiler.passes.control_flow.branches import DIVIDING, inlined
from compiler.passes.control_flow.inline import Written

WORK = {
    "Attention",
    "Conv",
    "ConvInteger",
    "ConvTranspose",
    "Einsum",
    "GRU",
    "Gemm",
    "LSTM",
    "Loop",
    "MatMul",
}
WORK |= {"MatMulInteger", "QLinearConv", "QLinearMatMul", "RNN", "Scan"}
"""What makes a call worth its cost."""


def lazy(node: NodeProto, taken: set[str]) -> Written | None:
    """The If ``node``, which data decide, as such a Loop; None where both branches have work, or neither.

    The Loop begins with the results of the other branch. That is always computed, so it must be computable.
    """
    then, otherwise = (
        next(attribute.g for attribute in node.attribute if attribute.name == f"{name}_branch")
        for name in ("then", "else")
    )
    if _works(then) == _works(otherwise):
        return None
    heavy, light = (then, otherwise) if _works(then) else (otherwise, then)
    if any(each.op_type in (*INDICES, *DIVIDING) for graph in graphs_of(light) for each in graph.node):
        return None

    def name(word: str) -> str:
        return fresh(f"{node_name(node)}/{word}", taken)

    before = NodeProto(name=f"{node_name(node)}/otherwise", output=[name("before") for _ in node.output])
    written = inlined(before, light, taken)
    shape, once, stop, condition = (name(word) for word in ("shape", "once", "stop", "condition"))
    written.constants.append(numpy_helper.from_array(np.zeros(0, np.int64), shape))
    written.constants.append(numpy_helper.from_array(np.array(1), once))
    written.node("Reshape", [node.input[0], shape], condition, node)
    if heavy is otherwise:
        taken_there, condition = condition, name("condition")
        written.node("Not", [taken_there], condition, node)
    body = GraphProto(name="branch", node=heavy.node, initializer=heavy.initializer)
    body.initializer.append(numpy_helper.from_array(np.array(False), stop))
    states = [name("state") for _ in node.output]
    body.input.extend(
        [
            helper.make_tensor_value_info(name("turn"), TensorProto.INT64, []),
            helper.make_tensor_value_info(name("going"), TensorProto.BOOL, []),
            *(helper.make_empty_tensor_value_info(each) for each in states),
        ]
    )
    ends = [stop, *(each.name for each in heavy.output)]
    for end, kind in zip(
        ends, [TensorProto.BOOL, *(TensorProto.UNDEFINED for _ in node.output)], strict=True
    ):
        result = name("result")
        body.node.append(helper.make_node("Identity", [end], [result], name=result))
        body.output.append(
            helper.make_tensor_value_info(result, kind, [])
            if kind
            else helper.make_empty_tensor_value_info(result)
        )
    outputs = [each or name("unused") for each in node.output]
    written.nodes.append(
        helper.make_node("Loop", [once, condition, *before.output], outputs, name=node_name(node), body=body)
    )
    return written


def _works(graph: GraphProto) -> bool:
    return any(each.op_type in WORK for inner in graphs_of(graph) for each in inner.node)
