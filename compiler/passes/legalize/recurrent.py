"""LSTM, GRU and RNN: a product of the whole input, tuned like any other, and what the steps make of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper

from compiler.ir.checks import node_name
from compiler.ir.graph import Array, TensorInfo
from compiler.ir.own_nodes import CELL_CLIP, RECURRENT
from compiler.passes.legalize.whole import Whole, whole_of
from compiler.passes.legalize.writer import Writer, vector
from kernels.operators.recurrent.recurrence import ahead_pays

CELLS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FACTORS: dict[str, tuple[float | None, float | None]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), (None, None)),
    **dict.fromkeys(("Elu", "ThresholdedRelu"), (1.0, None)),
    "Affine": (1.0, 0.0),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01, None),
    "ScaledTanh": (1.0, 1.0),
}
"""Alpha and beta of each function where a model does not say; None where it has none."""
WEIGHTS, STATES, BIAS, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES = range(1, 8)
"""Places of the operands after the data."""


def recurrent(writer: Writer) -> bool:
    """Write the node direction by direction; raises ModelError for what the steps cannot compute."""
    attributes, kind = writer.attributes, writer.node.op_type
    if writer.info(0).dtype != "float32":
        writer.refuse(f"computes in {writer.info(0).dtype}; only float32 is supported")
    data, batch_first = _some_width(writer), bool(attributes.get("layout", 0))
    if batch_first:
        data = writer.add("Transpose", data, perm=[1, 0, 2])
    said = attributes.get("direction", b"forward")
    ways = [False, True] if said == b"bidirectional" else [said == b"reverse"]
    cells = _cells(writer, CELLS[kind] * len(ways))
    each, whole = len(CELLS[kind]), whole_of(writer, data)
    lengths = _lengths(writer, *writer.graph.tensors[data].shape[:2])
    if lengths and whole and writer.graph.tensors[data].shape[1] > 1:
        # Bytes are made of the states of all rows, those at their end among them.
        writer.refuse("has quantized weights, several rows, and sequence_lens other than the whole sequence")
    made = [
        _direction(
            writer,
            whole,
            data,
            number,
            reverse,
            cells[number * each : (number + 1) * each],
            batch_first,
            lengths,
        )
        for number, reverse in enumerate(ways)
    ]
    for place, output in enumerate(writer.node.output):
        if output:
            _join(writer, [results[place] for results in made], place == 0, batch_first, output)
    return True


def _cells(writer: Writer, defaults: Sequence[str]) -> list[tuple[str, float, float]]:
    """(name, alpha, beta) of all functions; factors are taken in order by those that have them."""
    given = [name.decode() for name in writer.attributes.get("activations", [])] or list(defaults)
    alphas, betas = (iter(writer.attributes.get(f"activation_{name}", [])) for name in ("alpha", "beta"))
    known = {name.lower(): name for name in FACTORS}
    cells = []
    for name in given:
        if name.lower() not in known:
            writer.refuse(f"has the activation {name!r}, which is not known")
        alpha, beta = FACTORS[known[name.lower()]]
        alpha = None if alpha is None else float(next(alphas, alpha))
        beta = None if beta is None else float(next(betas, beta))
        cells.append((known[name.lower()], alpha or 0.0, beta or 0.0))
    return cells


def _direction(
    writer: Writer,
    whole: Whole | None,
    data: str,
    number: int,
    reverse: bool,
    cells: Sequence[tuple[str, float, float]],
    batch_first: bool,
    lengths: str,
) -> list[str]:
    """The results of one direction: of all steps (steps, batch, hidden), and the last states."""
    graph, kind = writer.graph, writer.node.op_type
    attributes = writer.attributes

    states = _part(writer, STATES, number)
    hidden = graph.tensors[writer.node.input[STATES]].shape[2]
    steps, batch, width = graph.tensors[data].shape
    after = kind == "GRU" and bool(attributes.get("linear_before_reset", 0))
    # Of one row the steps may make the product: of those that there are, and beside the reading of weights
    # that L1 has no room for. Of several the longest usually has all steps, and weights are used for each.
    within = batch == 1 and not whole and writer.value(WEIGHTS) is not None
    within = within and (bool(lengths) or ahead_pays(kind, steps, hidden, width))
    if within:
        product = data
    elif whole:
        product = whole.product(_known(writer, WEIGHTS, number), number)
        packed, units = whole.states(_known(writer, STATES, number), number)
        states = writer.constant(packed)
    else:
        if writer.value(WEIGHTS) is None:
            weights = writer.add("Transpose", _part(writer, WEIGHTS, number), perm=[1, 0])
        else:
            weights = writer.constant(np.ascontiguousarray(_known(writer, WEIGHTS, number).T))
        product = writer.add("MatMul", data, weights)
    inside = writer.constant(np.zeros(hidden, np.float32)) if after else ""
    bias = ""
    if writer.has(BIAS):
        bias, inside = _bias(writer, number, hidden, after)
        if not within:
            product = writer.add("Add", product, bias)
    operands = [product, states]
    for place in (INITIAL_H, INITIAL_C) if kind == "LSTM" else (INITIAL_H,):
        operands.append(_state(writer, place, number, (batch, hidden), batch_first))
    if kind == "LSTM" and writer.has(PEEPHOLES):
        operands.append(_part(writer, PEEPHOLES, number))
    if after:
        operands.append(inside)
    if whole:
        operands.append(writer.constant(units))
    if lengths:
        operands.append(lengths)
    if within:
        known = _known(writer, WEIGHTS, number)
        operands.append(writer.constant(known))
        operands.append(bias or writer.constant(np.zeros(len(known), np.float32)))
    shapes = [(steps, batch, hidden), *[(batch, hidden)] * (2 if kind == "LSTM" else 1)]
    outputs = []
    for name, shape in zip(_names(writer, len(shapes)), shapes, strict=True):
        # A name is taken once it has its shape: those of two results may begin alike.
        outputs.append(graph.fresh(f"{name or writer.node.name}/{number}"))
        graph.tensors[outputs[-1]] = TensorInfo(shape, writer.info(0).elem_type)
    settings: dict[str, Any] = {
        "kind": kind,
        "cells": [name for name, _, _ in cells],
        "alphas": [alpha for _, alpha, _ in cells],
        "betas": [beta for _, _, beta in cells],
        "reverse": int(reverse),
        "reset_after": int(after),
        "coupled": int(attributes.get("input_forget", 0)),
        "peepholes": int(kind == "LSTM" and writer.has(PEEPHOLES)),
        "lengths": int(bool(lengths)),
        "product": int(within),
    }
    if attributes.get("clip", 0.0) > 0:
        settings["clip"] = attributes["clip"]
    for entry in writer.node.metadata_props:
        if entry.key == CELL_CLIP:
            settings["cell_clip"] = float(entry.value)
    writer.nodes.append(
        helper.make_node(RECURRENT, operands, outputs, name=node_name(writer.node), **settings)
    )
    return outputs


def _known(writer: Writer, place: int, number: int) -> Array:
    value = writer.value(place)
    assert value is not None
    return np.asarray(value[number])


def _part(writer: Writer, place: int, number: int) -> str:
    """What direction ``number`` has of an operand, constant or computed."""
    if writer.value(place) is not None:
        return writer.constant(_known(writer, place, number))
    return writer.add("Gather", writer.node.input[place], writer.constant(np.array(number)), axis=0)


def _bias(writer: Writer, number: int, hidden: int, after: bool) -> tuple[str, str]:
    """What is added to the product of the input; and inside, where a gate is reset after its product."""
    if writer.value(BIAS) is not None:
        bias = _known(writer, BIAS, number).reshape(2, -1).copy()
        inside = bias[1, 2 * hidden :].copy()
        if after:
            bias[1, 2 * hidden :] = 0
        return writer.constant(bias.sum(axis=0)), writer.constant(inside) if after else ""
    whole = _part(writer, BIAS, number)
    size = writer.graph.tensors[whole].shape[0] // 2

    def cut(first: int, last: int) -> str:
        limits = [writer.constant(vector(each)) for each in (size + first, size + last, 0)]
        return writer.add("Slice", whole, *limits)

    own = cut(-size, 0)
    if not after:
        return writer.add("Add", own, cut(0, size)), ""
    rest = writer.add("Concat", cut(0, 2 * hidden), writer.constant(np.zeros(hidden, np.float32)), axis=0)
    return writer.add("Add", own, rest), cut(2 * hidden, size)


def _some_width(writer: Writer) -> str:
    """The data; where they have no elements a step, zeros in their place, and for their weights."""
    data: str = writer.node.input[0]
    *rows, width = writer.info(0).shape
    gates, hidden = writer.info(WEIGHTS).shape[1], writer.info(STATES).shape[2]
    if tuple(writer.info(STATES).shape[1:]) != (gates, gates // GATES[writer.node.op_type]):
        writer.refuse(f"has weights for {gates} gates, and {hidden} states a gate")
    if width:
        return data
    directions = writer.info(WEIGHTS).shape[0]
    weights = writer.constant(np.zeros((directions, gates, 1), np.float32))
    writer.node = helper.make_node(
        writer.node.op_type, writer.node.input, writer.node.output, name=writer.node.name
    )
    writer.node.input[WEIGHTS] = weights
    return writer.constant(np.zeros((*rows, 1), np.float32))


def _lengths(writer: Writer, steps: int, rows: int) -> str:
    """The number of steps of each row, int32; empty where all rows have all."""
    if writer.has(LENGTHS) and writer.info(LENGTHS).shape != (rows,):
        writer.refuse(f"has sequence_lens of {list(writer.info(LENGTHS).shape)} for {rows} rows")
    known = writer.value(LENGTHS)
    if not writer.has(LENGTHS) or (known is not None and (known == steps).all()):
        return ""
    return writer.bounded(writer.node.input[LENGTHS], 0, steps, "a length")


def _names(writer: Writer, count: int) -> list[str]:
    return [*writer.node.output, *[""] * count][:count]


def _state(writer: Writer, place: int, number: int, shape: tuple[int, int], batch_first: bool) -> str:
    """The state (batch, hidden) with which a direction begins; zeros where none is given."""
    if not writer.has(place):
        return writer.constant(np.zeros(shape, np.float32))
    whole = writer.node.input[place]
    directions = writer.info(place).shape[1 if batch_first else 0]
    if directions > 1:
        whole = writer.add("Gather", whole, writer.constant(vector(number)), axis=1 if batch_first else 0)
    return writer.add("Reshape", whole, writer.constant(vector(*shape)))


def _join(writer: Writer, parts: Sequence[str], steps: bool, batch_first: bool, output: str) -> None:
    """The parts of all directions as ONNX has them: (steps, directions, batch, hidden), or without steps."""
    *before, batch, hidden = writer.graph.tensors[parts[0]].shape
    shaped = [
        writer.add("Reshape", part, writer.constant(vector(*before, 1, batch, hidden))) for part in parts
    ]
    joined = writer.add("Concat", *shaped, axis=len(before)) if len(shaped) > 1 else shaped[0]
    if batch_first:
        perm = [2, 0, 1, 3] if steps else [1, 0, 2]
        writer.finish("Transpose", joined, perm=perm)
    else:
        writer.finish("Identity", joined)
    writer.nodes[-1].output[0] = output
