"""Loop states that no turn changes, or nobody reads, are taken out of the loop.

Paddle's exporter makes a state of every weight that a loop reads, and of every variable in it.
"""

from __future__ import annotations

from onnx import GraphProto, ModelProto, NodeProto, helper

from compiler.ir.checks import nested
from compiler.ir.names import made, reads


def drop_loop_states(model: ModelProto) -> None:
    """Let loops read from around them what they never change, and drop states without readers, in place."""
    graph = model.graph
    loops = [node for node in graph.node if node.op_type == "Loop" and node.domain in ("", "ai.onnx")]
    if not loops:
        return
    wanted = {value.name for value in graph.output}
    for node in graph.node:
        wanted.update(reads(node))
    outer = made(graph)
    nodes: list[NodeProto] = []
    for node in graph.node:
        nodes.append(node)
        if node in loops:
            nodes += _dropped(node, wanted, outer)
    del graph.node[:]
    graph.node.extend(nodes)


def _dropped(loop: NodeProto, wanted: set[str], outer: set[str]) -> list[NodeProto]:
    """Take such states from ``loop``, in place; nodes that make outputs of it, which somebody wants."""
    body, outside = next(nested(loop)), []
    states = len(loop.input) - 2
    if len(body.input) != 2 + states or len(body.output) < 1 + states or len(loop.output) < states:
        return []
    inside = {value.name for value in body.output}
    for node in body.node:
        inside.update(reads(node))
    before: list[NodeProto] = []
    for at in reversed(range(states)):
        first, output = loop.input[2 + at], loop.output[at]
        own, after = body.input[2 + at].name, body.output[1 + at].name
        if own == after and (own == first or own not in outer):
            if own != first:
                before.append(helper.make_node("Identity", [first], [own], name=f"{own}/unchanged"))
            if output in wanted:
                outside.append(helper.make_node("Identity", [first], [output], name=f"{output}/unchanged"))
        elif own in inside or output in wanted:
            continue
        del loop.input[2 + at], loop.output[at], body.input[2 + at], body.output[1 + at]
    _put_first(body, before)
    return outside


def _put_first(body: GraphProto, before: list[NodeProto]) -> None:
    nodes = [*before, *body.node]
    del body.node[:]
    body.node.extend(nodes)
