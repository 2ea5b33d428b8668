"""NON_MAX_SUPPRESSION_V4 and _V5 in ONNX: what is found, then zeros up to the length that a file has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from onnx import TensorProto

from compiler.ir.checks import ModelError
from compiler.readers.tflite.file import Array, Operator
from compiler.readers.tflite.formula import Formula
from compiler.readers.tflite.products import operand
from compiler.readers.tflite.writer import FILE, Writer


def suppression(writer: Writer, op: Operator) -> None:
    """The boxes that overlap no better one; V5 gives their scores, too."""
    formula, scored = Formula(writer, op), op.kind.endswith("V5")
    boxes, scores = (operand(writer, op, place) for place in range(2))
    (count, four), shape = _matrix(writer, boxes), writer.tensor(scores).shape
    if four != 4 or shape != (count,) or len(op.outputs) != 2 + scored:
        raise ModelError(f"its boxes are {[count, four]} and its scores {list(shape)}")
    most, overlap, least = (_number(writer, op, place) for place in (2, 3, 4))
    if scored and _number(writer, op, 5):
        raise ModelError("it lessens scores (soft_nms_sigma), which is not supported")
    room = int(most)
    # TFLite leaves out what overlaps as much as the limit, ONNX what does more.
    limit = np.nextafter(np.float32(overlap), np.float32(-1))
    if not 0 <= limit <= 1 or room < 1:
        raise ModelError(f"it looks for {room} boxes that overlap by less than {float(overlap):g}")
    values = writer.real(scores)
    found = formula(
        "NonMaxSuppression",
        formula.reshaped(writer.real(boxes), (1, count, 4)),
        formula.reshaped(values, (1, 1, count)),
        formula.integers([room]),
        formula.numbers([limit]),
        formula.numbers([least]),
    )
    places = formula.reshaped(formula.part(found, 2, 3, 1), (-1,))

    def filled(line: str, nothing: str) -> str:
        return formula.part(formula("Concat", line, nothing, axis=0), 0, room, 0)

    results: list[tuple[str, tuple[int, ...]]] = [
        (formula("Cast", filled(places, formula.integers(np.zeros(room))), to=TensorProto.INT32), (room,))
    ]
    if scored:
        line = formula("Gather", values, places)
        results.append((filled(line, formula.numbers(np.zeros(room))), (room,)))
    number = formula("Cast", formula("Shape", places), to=TensorProto.INT32)
    results.append((number, ()))
    for output, (name, size) in zip(op.outputs, results, strict=True):
        writer.agree(output, size, sure=bool(writer.tensor(output).open))
        one = writer.result(replace(op, outputs=(output,)), size)
        writer.write(one, FILE, name, [writer.reshape(size), *writer.quantize(one)])


def _matrix(writer: Writer, index: int) -> tuple[int, int]:
    shape = writer.tensor(index).shape
    if len(shape) != 2:
        raise ModelError(f"its boxes are {list(shape)}")
    return shape[0], shape[1]


def _number(writer: Writer, op: Operator, place: int) -> Array:
    """A constant scalar."""
    value = writer.constant(operand(writer, op, place))
    if value is None or value.size != 1:
        raise ModelError(f"its input {place} is not one constant number")
    return np.asarray(value.reshape(-1)[0])
