"""Inline the functions that a model defines for itself, as torch's exporters write them."""

from __future__ import annotations

import onnx
from onnx import FunctionProto, ModelProto, NodeProto
from onnx.inliner import inline_local_functions

from compiler.ir.checks import MAX_NODES, ModelError, first_line, nested

Key = tuple[str, str, str]
DEEPEST = 100
"""How many functions may be inside each other."""


def inlined(model: ModelProto) -> ModelProto:
    """``model`` without functions of its own.

    Raises ModelError where they call themselves, or come to more nodes than are read.
    """
    if not model.functions:
        return model
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    sizes: dict[Key, int] = {}
    count = sum(_size(node, functions, sizes, ()) for node in model.graph.node)
    if count > MAX_NODES:
        raise ModelError(f"the model's own functions come to {count} nodes; at most {MAX_NODES} are read")
    called = [functions[key] for key in functions if key in sizes]
    del model.functions[:]
    model.functions.extend(called)
    try:
        return inline_local_functions(model)
    except (RuntimeError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(f"the model's own functions cannot be inlined: {first_line(error)}") from None


def _size(
    node: NodeProto, functions: dict[Key, FunctionProto], sizes: dict[Key, int], inside: tuple[Key, ...]
) -> int:
    """How many nodes there are in the place of ``node``, which is in the functions ``inside``."""
    key = (node.domain, node.op_type, node.overload)
    if key in inside:
        raise ModelError(f"the model's function {node.op_type!r} calls itself")
    if len(inside) > DEEPEST:
        raise ModelError(f"more than {DEEPEST} of the model's own functions call each other")
    if key in functions and key not in sizes:
        sizes[key] = sum(_size(each, functions, sizes, (*inside, key)) for each in functions[key].node)
    branches = sum(_size(each, functions, sizes, inside) for graph in nested(node) for each in graph.node)
    return sizes.get(key, 1) + branches
