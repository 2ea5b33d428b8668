"""MediaPipe's operators around landmarks in ONNX: a matrix of a crop, points and images moved by it.

Points are (x, y) on the last axis. A matrix is (1, 4, 4); its rows x and y and its columns x, y and 1 count.
"""

from __future__ import annotations

import math

import numpy as np

from compiler.ir.checks import ModelError
from compiler.readers.tflite.custom_options import CustomOptions
from compiler.readers.tflite.file import Operator
from compiler.readers.tflite.formula import Formula
from compiler.readers.tflite.products import operand
from compiler.readers.tflite.writer import NCHW, Writer

CROP_MATRIX = "CUSTOM 'Landmarks2TransformMatrix' version 2"
MOVED_POINTS = "CUSTOM 'TransformLandmarks' version 2"
MOVED_IMAGE = "CUSTOM 'TransformTensorBilinear' version 2"
MATRIX = (1, 4, 4)


def crop_matrix(writer: Writer, op: Operator) -> None:
    """From the pixels of a crop to the plane: around some landmarks, turned so that two of them lie level."""
    options, formula = CustomOptions(op), Formula(writer, op)
    data, shape = formula.floats(0)
    if len(shape) != 3 or shape[0] != 1 or shape[2] != 3:
        raise ModelError(f"its landmarks are {list(shape)}, not (1, count, 3)")
    ends = [options.integer("left_rotation_idx"), options.integer("right_rotation_idx")]
    subset = options.integers("subset_idxs")
    if not subset or min(*subset, *ends) < 0 or max(*subset, *ends) >= shape[1]:
        raise ModelError(f"its options name landmarks that are none of its {shape[1]}")
    size = [options.integer(f"output_{side}") for side in ("width", "height")]
    scale = [options.number(f"scale_{axis}") for axis in "xy"]
    if min(*size, *scale) <= 0:
        raise ModelError(f"its crop is {size} by scales {scale}")
    target = options.number("target_rotation_radians", 0.0)

    points = formula.part(data, 0, 2, 2)
    (left, right) = (formula.part(points, end, end + 1, 1) for end in ends)
    turn = _turn(formula, formula("Sub", right, left), target)
    chosen = formula("Gather", points, formula.integers(subset), axis=1)
    turned = _rotated(formula, chosen, turn, "Add")
    high = formula("ReduceMax", turned, axes=[1])
    low = formula("ReduceMin", turned, axes=[1])
    scaled = formula("Mul", formula("Sub", high, low), formula.numbers(scale))
    pixel = formula("Div", scaled, formula.numbers(size))
    middle = formula("Mul", formula("Add", high, low), formula.numbers(0.5))
    centre = formula.reshaped(_rotated(formula, middle, turn, "Sub"), (1, 2, 1))
    # (cos, sin) and (-sin, cos) by the size of a pixel.
    axes = formula("Mul", formula("Concat", turn, _quarter(formula, turn), axis=1), pixel)
    corner = formula("Mul", axes, formula.numbers([-0.5 * side for side in size]))
    origin = formula("Add", formula("ReduceSum", corner, formula.integers([2])), centre)
    rows = formula("Concat", axes, formula.numbers(np.zeros((1, 2, 1))), origin, axis=2)
    rest = formula.numbers([[[0, 0, 1, 0], [0, 0, 0, 1]]])
    writer.compute(op, rows, [("Concat", [rest], {"axis": 1})], MATRIX)


def moved_points(writer: Writer, op: Operator) -> None:
    """Points by a matrix; what comes after x and y stays."""
    formula = Formula(writer, op)
    data, shape = formula.floats(0)
    if len(shape) != 3 or shape[0] != 1 or shape[2] not in (2, 3):
        raise ModelError(f"its landmarks are {list(shape)}, not (1, count, 2 or 3)")
    first, second, last = _columns(formula)
    moved = formula("Mul", formula.part(data, 0, 1, 2), first)
    moved = formula("Add", moved, formula("Mul", formula.part(data, 1, 2, 2), second))
    moved = formula("Add", moved, last)
    if shape[2] == 3:
        moved = formula("Concat", moved, formula.part(data, 2, 3, 2), axis=2)
    writer.compute(op, moved, [], shape)


def moved_image(writer: Writer, op: Operator) -> None:
    """The image that a matrix cuts from another, linear between pixels, zero where it reaches out of that."""
    options, formula = CustomOptions(op), Formula(writer, op)
    _, shape = formula.floats(0)
    rows, columns = (options.integer(f"output_{side}") for side in ("height", "width"))
    if len(shape) != 4 or shape[0] != 1 or min(*shape, rows, columns) < 1:
        raise ModelError(f"it makes an image of {rows} x {columns} of {list(shape)}, not of one image")
    result = (1, rows, columns, shape[3])
    writer.result(op, result)  # before constants of that size are made
    first, second, last = _columns(formula)
    # The matrix is of corners of pixels, coordinates of their centres.
    half = formula("Mul", formula("Add", first, second), formula.numbers(0.5))
    last = formula("Add", last, formula("Sub", half, formula.numbers(0.5)))
    across = formula("Mul", formula.numbers(np.arange(columns).reshape(1, 1, -1, 1)), first)
    down = formula("Mul", formula.numbers(np.arange(rows).reshape(1, -1, 1, 1)), second)
    places = formula("Add", formula("Add", across, down), last)
    extent = np.asarray((shape[2], shape[1]), np.float64)
    # How far it is out, not whether a bound changes it: a build may round one sum in two ways.
    over = formula("Max", formula("Neg", places), formula("Sub", places, formula.numbers(extent - 1)))
    outside = formula.reshaped(formula("ReduceMax", over, axes=[3]), (1, 1, rows, columns))
    kept = formula("LessOrEqual", outside, formula.numbers(0))
    # From -1 at the first pixel's outer edge to 1 at the last one's.
    grid = formula(
        "Add", formula("Mul", places, formula.numbers(2 / extent)), formula.numbers(1 / extent - 1)
    )
    image = writer.real(operand(writer, op, 0), NCHW)
    drawn = formula("GridSample", image, grid, mode="bilinear", padding_mode="border", align_corners=0)
    writer.compute(op, kept, [("Where", [drawn, formula.numbers(0)], {})], result)


def _columns(formula: Formula) -> tuple[str, str, str]:
    """Columns x, y and 1 of the matrix at input 1, in rows x and y, each (1, 1, 2)."""
    data, shape = formula.floats(1)
    if shape != MATRIX:
        raise ModelError(f"its matrix is {list(shape)}, not {list(MATRIX)}")
    rows = formula("Transpose", formula.part(data, 0, 2, 1), perm=[0, 2, 1])
    return formula.part(rows, 0, 1, 1), formula.part(rows, 1, 2, 1), formula.part(rows, 3, 4, 1)


def _turn(formula: Formula, along: str, target: float) -> str:
    """(cos, sin), (1, 1, 2), of ``target`` less the angle of the vector ``along``, which is 0 for none.

    The vector is divided by its larger part first: squares of small numbers would be lost.
    """
    larger = formula("ReduceMax", formula("Abs", along), axes=[2])
    vector = formula("Div", along, larger)
    square = formula("ReduceSum", formula("Mul", vector, vector), formula.integers([2]))
    unit = formula("Div", vector, formula("Sqrt", square))
    none = formula("Equal", larger, formula.numbers(0))
    angle = formula("Where", none, formula.numbers([1, 0]), unit)
    cosine, sine = math.cos(target), math.sin(target)
    direct = formula("Mul", angle, formula.numbers([cosine, -cosine]))
    crossed = formula("Mul", _swapped(formula, angle), formula.numbers([sine, sine]))
    return formula("Add", direct, crossed)


def _swapped(formula: Formula, points: str) -> str:
    """(y, x) of (x, y)."""
    return formula("Slice", points, *map(formula.integers, ([1], [-3], [2], [-1])))


def _quarter(formula: Formula, points: str) -> str:
    """(-y, x) of (x, y)."""
    return formula("Mul", _swapped(formula, points), formula.numbers([-1, 1]))


def _rotated(formula: Formula, points: str, turn: str, sign: str) -> str:
    """Points rotated by the angle of ``turn`` (``sign`` is Add) or back (Sub)."""
    (cosine, sine) = (formula.part(turn, place, place + 1, 2) for place in (0, 1))
    crossed = formula("Mul", _quarter(formula, points), sine)
    return formula(sign, formula("Mul", points, cosine), crossed)
