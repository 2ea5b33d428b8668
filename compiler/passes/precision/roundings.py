"""Casts to 16 bits that round on purpose, told from those of a model that computes in 16 bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import GraphProto, NodeProto, TensorProto, helper

from compiler.ir.checks import nested
from compiler.ir.names import reads

NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)
_MOVES = {"Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"}
"""Operators that compute nothing."""


@dataclass
class _Known:
    """What is known of tensors: ``types`` are those of 16 bits, and what is ``computed`` is made of what has
    been computed in 16 bits, as inputs of 16 bits have."""

    types: dict[str, int] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)
    rounded: set[str] = field(default_factory=set)
    """The tensors of 16 bits that are made float32 again at once."""


def keep_roundings(graph: GraphProto) -> tuple[set[str], bool]:
    """Let every Cast to 16 bits of what nothing of 16 bits went into be followed by one to float32.

    The results of the first of both, and whether anything is computed in 16 bits, which begins with inputs.
    """
    known = _Known()
    _walk(graph, known)
    return known.rounded, bool(known.computed)


def _walk(graph: GraphProto, known: _Known) -> None:
    known.types |= {each.name: each.data_type for each in graph.initializer if each.data_type in NARROW}
    for value in graph.input:
        kind = value.type.tensor_type.elem_type
        if kind in NARROW and value.name not in known.types:
            known.types[value.name] = kind
            known.computed.add(value.name)
    results = {value.name for value in graph.output}
    results -= {name for node in graph.node for name in reads(node)}
    nodes: list[NodeProto] = []
    for node in graph.node:
        before = len(known.computed)
        for body in nested(node):
            _walk(body, known)
        kind, operands = _kind_of(node, known.types), set(reads(node))
        casts = node.op_type in ("Cast", "CastLike")
        computes = not casts and node.op_type not in _MOVES and not known.types.keys().isdisjoint(operands)
        if computes or len(known.computed) > before or not known.computed.isdisjoint(operands):
            known.computed.update(node.output)
        # What is a result and nothing else is rounded as that.
        if casts and kind and node.output[0] not in results and node.output[0] not in known.computed:
            nodes += _rounding(node, kind, known)
        else:
            nodes.append(node)
        if kind:
            known.types |= dict.fromkeys(node.output, kind)
    if len(nodes) > len(graph.node):
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def _kind_of(node: NodeProto, types: Mapping[str, int]) -> int:
    """Which type of 16 bits the result of ``node`` has; 0 of another type, or where operands tell."""
    if node.op_type in _MOVES:
        return types.get(node.input[0], 0)
    if node.op_type == "CastLike":
        return types.get(node.input[1], 0)
    kinds = (
        each.t.data_type if each.HasField("t") else each.i
        for each in node.attribute
        if each.HasField("t") or each.name in ("to", "dtype")
    )
    return next((kind for kind in kinds if kind in NARROW), 0)


def _rounding(node: NodeProto, kind: int, known: _Known) -> list[NodeProto]:
    output = node.output[0]
    narrow = f"{output}/rounded"
    known.rounded.add(narrow)
    return [
        helper.make_node("Cast", node.input[:1], [narrow], name=node.name, to=kind),
        helper.make_node("Cast", [narrow], [output], name=f"{output}/float32", to=TensorProto.FLOAT),
    ]
