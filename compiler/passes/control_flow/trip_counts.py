"""Trip counts of loops, where constants tell them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import GraphProto, NodeProto, numpy_helper

from compiler.ir.checks import ModelError, node_name
from compiler.ir.graph import Array
from compiler.ir.names import reads
from compiler.passes.shapes.evaluate import Uncomputed
from compiler.passes.shapes.folding import evaluate_node

MOST_TURNS = 10_000
"""So many are counted where each turn says whether there is another."""


def trips(node: NodeProto, body: GraphProto, known: Mapping[str, Array], opset: int) -> int | None:
    """The turns of the Loop ``node``; None where that is not known. Raises ModelError for far too many."""
    limit_name, condition_name = node.input[0], node.input[1] if len(node.input) > 1 else ""
    limit = max(0, int(known[limit_name].item())) if limit_name in known else None
    if limit == 0 or (condition_name in known and not known[condition_name].item()):
        return 0
    if any(name and name not in known for name in (limit_name, condition_name)):
        return None
    needed = _needed(node, body, known)
    if needed is None:
        return None
    deciding, states = needed
    values = {
        value.name: known[name]
        for value, name in zip(body.input[2:], node.input[2:], strict=False)
        if name in known
    }
    values |= {tensor.name: numpy_helper.to_array(tensor) for tensor in body.initializer}
    turn = 0
    while limit is None or turn < limit:
        around = dict(known) | values
        around |= {body.input[0].name: np.array(turn), body.input[1].name: np.array(True)}
        try:
            for each in deciding:
                around[each.output[0]] = evaluate_node(each, around, opset)
        except Uncomputed:
            return None
        turn += 1
        if not around[body.output[0].name].item():
            return turn
        if not states and body.input[0].name not in {name for each in deciding for name in each.input}:
            if limit is None:
                raise ModelError(f"node {node_name(node)!r} (Loop) never ends")
            return limit
        if turn > MOST_TURNS:
            raise ModelError(f"node {node_name(node)!r} (Loop) has more than {MOST_TURNS} turns")
        values |= {body.input[2 + state].name: around[body.output[1 + state].name] for state in states}
    return turn


def _needed(
    node: NodeProto, body: GraphProto, known: Mapping[str, Array]
) -> tuple[list[NodeProto], set[int]] | None:
    """The nodes that say whether there is another turn, in order, and the places of the states they read.

    None where they depend on what is not known.
    """
    makers = {name: each for each in body.node for name in each.output if name}
    places = {value.name: place for place, value in enumerate(body.input[2:])}
    constants = {tensor.name for tensor in body.initializer}
    seen: set[str] = set()
    states: set[int] = set()
    waiting = [body.output[0].name]
    while waiting:
        name = waiting.pop()
        if name in seen or name in constants or name in (value.name for value in body.input[:2]):
            continue
        seen.add(name)
        if name in makers:
            maker = makers[name]
            if len(maker.output) > 1 or any(each.HasField("g") for each in maker.attribute):
                return None
            waiting += [each for each in reads(maker) if each]
        elif name in places:
            place = places[name]
            if node.input[2 + place] not in known:
                return None
            states.add(place)
            waiting.append(body.output[1 + place].name)
        elif name not in known:
            return None
    return [each for each in body.node if each.output[0] in seen], states
