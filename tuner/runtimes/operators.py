"""Operators that no runtime computes: asked before any of them is tried."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import cache

import onnx
from onnx import GraphProto, ModelProto, NodeProto

from compiler.intake.trial import LISTED, WAY_OUT
from compiler.ir.checks import ModelError, nested, node_name
from compiler.ir.own_nodes import OWN_DOMAIN

MICROSOFT, OPENVINO = "com.microsoft", "org.openvinotoolkit"


def refuse_unknown(model: ModelProto) -> None:
    """Raise ModelError that names the operators of ``model`` that no runtime knows, with a node of each.

    Known are those of ONNX, the model's own functions and what onnxruntime says that it has. What is not to
    be known, OpenVINO's own ones and those of com.microsoft without onnxruntime, is left to the runtimes.
    """
    own = {(each.domain, each.name) for each in model.functions}
    unknown: dict[str, str] = {}
    for node in _nodes(model):
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (node.domain, node.op_type) not in own and not _known(domain, node.op_type):
            unknown.setdefault(f"{domain}.{node.op_type}".lstrip("."), node_name(node))
    if unknown:
        listed = ", ".join(f"{op} (node {name!r})" for op, name in sorted(unknown.items())[:LISTED])
        raise ModelError(f"no runtime computes these operators: {listed}; {WAY_OUT}")


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    """All nodes, those of nested graphs and of functions too."""

    def walk(graph: GraphProto) -> Iterator[NodeProto]:
        for node in graph.node:
            yield node
            for inner in nested(node):
                yield from walk(inner)

    yield from walk(model.graph)
    for function in model.functions:
        yield from walk(GraphProto(node=function.node))


def _known(domain: str, op: str) -> bool:
    if domain == OWN_DOMAIN or onnx.defs.has(op, domain) or (domain, op) in _of_onnxruntime():
        return True
    if domain == MICROSOFT:
        return not _of_onnxruntime()
    return domain == OPENVINO and importlib.util.find_spec("openvino") is not None


@cache
def _of_onnxruntime() -> frozenset[tuple[str, str]]:
    """Domain and name of all operators that onnxruntime has; none where it is not installed."""
    if not importlib.util.find_spec("onnxruntime"):
        return frozenset()
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return frozenset((each.domain, each.name) for each in get_all_operator_schema())
