"""Dead code elimination: nodes that nobody reads are left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

from compiler.ir.checks import nested
from compiler.ir.names import reads

OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional


def drop_dead_code(model: ModelProto) -> None:
    """Leave out nodes, and their last results, that nothing reads, in place; also in graphs and functions."""
    _drop(model.graph)
    for function in model.functions:
        _drop_from(function, set(function.output))


def needed(nodes: Sequence[NodeProto], outputs: Iterable[str]) -> list[NodeProto]:
    """The ``nodes``, in any order, that ``outputs`` depend on."""
    makers: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            makers.setdefault(name, []).append(index)
    kept: set[int] = set()
    pending = list(outputs)
    while pending:
        # A name that two nodes have is for the checker to refuse.
        for index in makers.pop(pending.pop(), ()):
            if index not in kept:
                kept.add(index)
                pending += reads(nodes[index])
    return [node for index, node in enumerate(nodes) if index in kept]


def _drop(graph: GraphProto) -> None:
    _drop_from(graph, {value.name for value in graph.output})


def _drop_from(graph: GraphProto | FunctionProto, outputs: set[str]) -> None:
    """The same of one graph; what a graph inside reads for results that nobody wants counts for nothing."""
    nodes = needed(graph.node, outputs)
    while True:
        wanted = outputs.union(*map(reads, nodes))
        for node in nodes:
            _narrow(node, wanted)
            for inner in nested(node):
                _drop(inner)
        left = needed(nodes, outputs)
        if len(left) == len(nodes):
            break
        nodes = left
    if len(nodes) < len(graph.node):
        del graph.node[:]
        graph.node.extend(nodes)


def _narrow(node: NodeProto, wanted: set[str]) -> None:
    """Take from ``node`` the results that are not ``wanted``, as far as it may leave them out."""
    if node.domain not in ("", "ai.onnx"):
        return
    if node.op_type == "If":
        for at in _unread(node, wanted, 0):
            if all(at < len(branch.output) for branch in nested(node)) and len(node.output) > 1:
                del node.output[at]
                for branch in nested(node):
                    del branch.output[at]
    elif node.op_type == "Loop":
        for body in nested(node):
            for at in _unread(node, wanted, len(node.input) - 2):
                if at + 1 < len(body.output) and len(node.output) > 1:
                    del node.output[at], body.output[at + 1]
    elif onnx.defs.has(node.op_type):
        told = onnx.defs.get_schema(node.op_type).outputs
        while len(node.output) > 1 and node.output[-1] not in wanted:
            last = len(node.output) - 1
            if last >= len(told) or told[last].option != OPTIONAL:
                break
            del node.output[last]


def _unread(node: NodeProto, wanted: set[str], first: int) -> list[int]:
    """The places from ``first`` on of results that are not ``wanted``, the last first."""
    places = range(max(0, first), len(node.output))
    return [at for at in reversed(places) if node.output[at] not in wanted]
