"""TFLite_Detection_PostProcess in ONNX: boxes by anchors, and the best that overlap no better one.

Each turn takes what has the greatest score, and what overlaps it too much has none from there on. There are
as many turns as there may be detections, so all shapes are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from onnx import TensorProto

from compiler.ir.checks import ModelError
from compiler.readers.tflite.custom_options import CustomOptions
from compiler.readers.tflite.file import Operator
from compiler.readers.tflite.formula import Formula
from compiler.readers.tflite.products import operand, real_values
from compiler.readers.tflite.writer import FILE, Writer

DETECTIONS = "CUSTOM 'TFLite_Detection_PostProcess'"
MOST = 200
"""Detections that are looked for."""
NONE = -1e30
"""The score of what is out."""


@dataclass(frozen=True)
class _Boxes:
    """Sides (top, left, bottom, right) and areas of all boxes, (count) each, and a number for each box."""

    sides: tuple[str, ...]
    areas: str
    places: str


def detections(writer: Writer, op: Operator) -> None:
    """Boxes, classes, scores and number of the detections of one image, each box of one class."""
    options, formula = CustomOptions(op), Formula(writer, op)
    most = options.integer("max_detections")
    if options.flag("use_regular_nms") or options.integer("max_classes_per_detection") != 1:
        raise ModelError("it looks class by class, which is not supported; one class a box is")
    indices = [operand(writer, op, place) for place in range(3)]
    shapes = [writer.tensor(index).shape for index in indices]
    count, classes = shapes[2][0] if shapes[2] else 0, options.integer("num_classes")
    if (
        shapes[0] != (1, count, 4)
        or shapes[1][:2] != (1, count)
        or shapes[2] != (count, 4)
        or len(shapes[1]) != 3
    ):
        raise ModelError(f"its boxes, scores and anchors are {[list(shape) for shape in shapes]}")
    behind = shapes[1][2] - classes
    if behind not in (0, 1) or classes < 1 or len(op.outputs) != 4 or not 1 <= most <= MOST or count < most:
        raise ModelError(
            f"it looks for {most} of {count} boxes of {classes} classes in {len(op.outputs)} results"
        )

    boxes = _decoded(formula, options, writer.real(indices[0], FILE), _anchors(writer, indices[2]), count)
    each = formula.part(writer.real(indices[1], FILE), behind, behind + classes, 2)
    kinds = formula.reshaped(formula("ArgMax", each, axis=2, keepdims=0), (count,))
    best = formula.reshaped(formula("ReduceMax", each, axes=[2], keepdims=0), (count,))
    least = formula.numbers(options.number("nms_score_threshold"))
    out = formula.numbers(NONE)
    scores = formula("Where", formula("GreaterOrEqual", best, least), best, out)
    overlap = formula.numbers(options.number("nms_iou_threshold"))
    chosen, found = [], []
    for _ in range(most):
        place = formula("ArgMax", scores, axis=0, keepdims=1)
        chosen.append(place)
        found.append(formula("Gather", scores, place))
        scores = formula("Where", _covered(formula, boxes, place, overlap), out, scores)
    places, values = (
        formula("Concat", *names, axis=0) if most > 1 else names[0] for names in (chosen, found)
    )
    there = formula("Greater", values, out)
    zero = formula.numbers(0)
    corners = [formula.reshaped(formula("Gather", side, places), (most, 1)) for side in boxes.sides]
    wide = formula.reshaped(there, (most, 1))
    results = {
        (1, most, 4): formula("Where", wide, formula("Concat", *corners, axis=1), zero),
        (1, most): formula(
            "Where", there, formula("Cast", formula("Gather", kinds, places), to=TensorProto.FLOAT), zero
        ),
        (1, most, 1): formula("Where", there, values, zero),
        (1,): formula("ReduceSum", formula("Cast", there, to=TensorProto.FLOAT), keepdims=1),
    }
    for output, (shape, value) in zip(op.outputs, results.items(), strict=True):
        size = shape[:2] if len(shape) == 3 and shape[2] == 1 else shape
        one = replace(op, outputs=(output,))
        writer.agree(output, size, sure=True)
        writer.write(writer.result(one, size), FILE, value, [writer.reshape(size)])


def _anchors(writer: Writer, index: int) -> np.ndarray:
    """(y, x, height, width) of each anchor, float64."""
    values = writer.constant(index)
    if values is None:
        raise ModelError("its anchors are computed, not constant")
    return real_values(writer.tensor(index), values).astype(np.float64)


def _decoded(formula: Formula, options: CustomOptions, data: str, anchors: np.ndarray, count: int) -> _Boxes:
    columns = [formula.reshaped(formula.part(data, at, at + 1, 2), (count,)) for at in range(4)]
    scales = [options.number(f"{axis}_scale") for axis in "yxhw"]
    if min(scales) <= 0:
        raise ModelError(f"its scales are {scales}")
    starts, ends = [], []
    for axis in range(2):
        size = anchors[:, 2 + axis]
        middle = formula("Mul", columns[axis], formula.numbers(size / scales[axis]))
        middle = formula("Add", middle, formula.numbers(anchors[:, axis]))
        grown = formula("Exp", formula("Mul", columns[2 + axis], formula.numbers(1 / scales[2 + axis])))
        half = formula("Mul", grown, formula.numbers(0.5 * size))
        starts.append(formula("Sub", middle, half))
        ends.append(formula("Add", middle, half))
    areas = formula("Mul", *(formula("Sub", end, start) for start, end in zip(starts, ends, strict=True)))
    return _Boxes((*starts, *ends), areas, formula.integers(np.arange(count)))


def _covered(formula: Formula, boxes: _Boxes, place: str, overlap: str) -> str:
    """Which boxes share more than ``overlap`` of their union with the box at ``place``, itself among them."""
    area = formula("Gather", boxes.areas, place)
    own = [formula("Gather", side, place) for side in boxes.sides]
    spans = []
    for axis in range(2):
        start = formula("Max", boxes.sides[axis], own[axis])
        end = formula("Min", boxes.sides[2 + axis], own[2 + axis])
        spans.append(formula("Relu", formula("Sub", end, start)))
    shared = formula("Mul", *spans)
    union = formula("Sub", formula("Add", boxes.areas, area), shared)
    # Not a quotient: a box without an area shares nothing.
    much = formula("Greater", shared, formula("Mul", union, overlap))
    return formula("Or", much, formula("Equal", boxes.places, place))
