"""Operators of TFLite that keep a state from one run to the next, in ONNX: LSTM and SVDF.

They compute in real numbers, whatever the types of data and weights. What a run leaves in a state is a result
of the operator's, after its own (``subgraphs.py``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import helper

from compiler.ir.checks import ModelError
from compiler.ir.own_nodes import CELL_CLIP
from compiler.readers.tflite.file import Array, Operator
from compiler.readers.tflite.formula import Formula
from compiler.readers.tflite.products import fused, operand, real_values
from compiler.readers.tflite.writer import FILE, Writer

CELLS = {"TANH": "Tanh", "RELU": "Relu", "SIGMOID": "Sigmoid"}
INPUT, FORGET, CELL, OUTPUT = range(4)
"""The order of gates in the file."""
ORDER = (INPUT, OUTPUT, FORGET, CELL)
"""Their order in ONNX."""
WEIGHTS, STATES, PEEPHOLES, BIASES, PROJECTION, STATE, NORMS = 1, 5, 9, 12, 16, 18, 20
"""Where the operands of an LSTM begin."""


def lstm(writer: Writer, op: Operator) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM without projection and norms; without an input gate it is coupled."""
    if any(_given(op, place) for place in (PROJECTION, *range(NORMS, NORMS + 4))):
        raise ModelError("it has a projection or norms, which are not supported")
    if len(op.outputs) != 3:
        raise ModelError("its states are no variables")
    formula, data = Formula(writer, op), operand(writer, op, 0)
    shape = writer.tensor(data).shape
    weights, states, biases = (_gates(writer, op, first) for first in (WEIGHTS, STATES, BIASES))
    if len(shape) != 3 or weights is None or states is None:
        raise ModelError(f"its data is {list(shape)}, or it lacks weights")
    hidden = states.shape[1]
    if weights.shape != (4 * hidden, shape[2]) or states.shape != (4 * hidden, hidden):
        raise ModelError(
            f"its weights {list(weights.shape)} and {list(states.shape)} do not fit {list(shape)}"
        )
    bias = np.zeros(4 * hidden, np.float32) if biases is None else biases
    if bias.shape != (4 * hidden,):
        raise ModelError(f"its biases are {list(bias.shape)}")
    steps, batch = (0, 1) if op.options.TimeMajor() else (1, 0)
    count, rows = shape[steps], shape[batch]
    first = writer.real(data, FILE)
    if steps:
        first = formula("Transpose", first, perm=[1, 0, 2])
    before = [
        formula.reshaped(writer.real(operand(writer, op, STATE + at), FILE), (1, rows, hidden))
        for at in (0, 1)
    ]
    both = np.concatenate([bias, np.zeros_like(bias)])
    operands = [first, *(formula.numbers(value[None]) for value in (weights, states, both)), "", *before]
    operands += _peepholes(writer, op, formula, hidden)
    name = fused(op.options)
    if name not in CELLS:
        raise ModelError(f"its activation {name} is not supported")
    made = [writer.nodes.name(f"{op.name}/{part}") for part in ("steps", "state", "memory")]
    cells = ["Sigmoid", CELLS[name], CELLS[name]]
    node = helper.make_node("LSTM", operands, made, name=op.name, hidden_size=hidden, activations=cells)
    if op.options.CellClip() > 0:
        node.metadata_props.add(key=CELL_CLIP, value=repr(float(op.options.CellClip())))
    writer.nodes.nodes.append(node)
    sequence = formula.reshaped(made[0], (count, rows, hidden))
    if steps:
        sequence = formula("Transpose", sequence, perm=[1, 0, 2])
    shapes = [(*shape[:2], hidden), (rows, hidden), (rows, hidden)]
    values = [sequence, *(formula.reshaped(value, (rows, hidden)) for value in made[1:])]
    _results(writer, op, values, shapes)


def _results(writer: Writer, op: Operator, values: list[str], shapes: list[tuple[int, ...]]) -> None:
    for output, value, shape in zip(op.outputs, values, shapes, strict=True):
        index = writer.result(replace(op, outputs=(output,)), shape)
        writer.write(index, FILE, value, writer.finished(index, [], "NONE"))


def _given(op: Operator, place: int) -> bool:
    return len(op.inputs) > place and op.inputs[place] >= 0


def _constant(writer: Writer, op: Operator, place: int) -> Array:
    index = operand(writer, op, place)
    values = writer.constant(index)
    if values is None:
        raise ModelError(f"its input {place} is computed, not constant")
    return real_values(writer.tensor(index), values)


def _gates(writer: Writer, op: Operator, first: int) -> Array | None:
    """What four inputs say of the gates, one after the other as ONNX has them; None where there is nothing.

    Where the input gate is left out it is 1 less the forget gate, which is the sigmoid of the opposite.
    """
    if not _given(op, first + FORGET):
        return None
    coupled = not _given(op, WEIGHTS + INPUT)
    parts = {
        gate: _constant(writer, op, first + gate)
        for gate in (INPUT, FORGET, CELL, OUTPUT)
        if gate != INPUT or not coupled
    }
    if coupled:
        parts[INPUT] = -parts[FORGET]
    return np.concatenate([parts[gate] for gate in ORDER])


def _peepholes(writer: Writer, op: Operator, formula: Formula, hidden: int) -> list[str]:
    """What input, forget and output gate see of the memory; in ONNX the last of them is second."""
    if not _given(op, PEEPHOLES + 1):
        return []
    forget, shown = (_constant(writer, op, PEEPHOLES + at) for at in (1, 2))
    taken = _constant(writer, op, PEEPHOLES) if _given(op, PEEPHOLES) else -forget
    return [formula.numbers(np.concatenate([taken, shown, forget]).reshape(1, 3 * hidden))]


def svdf(writer: Writer, op: Operator) -> None:
    """SVDF: lines that a step shifts by what it makes of its data, times weights of time."""
    if len(op.outputs) != 2:
        raise ModelError("its state is no variable")
    data, formula = operand(writer, op, 0), Formula(writer, op)
    features, times = _constant(writer, op, 1), _constant(writer, op, 2)
    (rows, width), rank = (*writer.tensor(data).shape, 0)[:2], op.options.Rank()
    (count, memory), state = times.shape, operand(writer, op, 4)
    if features.shape != (count, width) or rank < 1 or count % rank or memory < 2:
        raise ModelError(f"its weights {list(features.shape)} and {list(times.shape)} do not fit")
    before = formula.reshaped(writer.real(state, FILE), (rows, count, memory))
    new = formula("MatMul", writer.real(data, FILE), formula.numbers(features.T))
    new = formula.reshaped(new, (rows, count, 1))
    lines = formula("Concat", formula.part(before, 1, memory, 2), new, axis=2)
    sums = formula(
        "ReduceSum", formula("Mul", lines, formula.numbers(times)), formula.integers([2]), keepdims=0
    )
    units = formula.reshaped(sums, (rows, count // rank, rank))
    made = formula("ReduceSum", units, formula.integers([2]), keepdims=0)
    if _given(op, 3):
        made = formula("Add", made, formula.numbers(_constant(writer, op, 3)))
    index = writer.result(replace(op, outputs=op.outputs[:1]), (rows, count // rank))
    writer.write(index, FILE, made, writer.finished(index, [("Identity", [], {})], fused(op.options)))
    left = formula.reshaped(lines, (rows, count * memory))
    _results(writer, replace(op, outputs=op.outputs[1:]), [left], [(rows, count * memory)])
