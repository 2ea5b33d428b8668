"""Functions of single elements of TFLite in ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from onnx import defs, helper

from compiler.ir.checks import ModelError
from compiler.readers.tflite.file import Operator
from compiler.readers.tflite.nodes import Step
from compiler.readers.tflite.operands import Reader, ranked
from compiler.readers.tflite.products import fused, operand, real_values
from compiler.readers.tflite.writer import FILE, Writer

CLAMPS = ("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
UNARY = {
    **{kind: kind.title() for kind in ("ABS", "CEIL", "COS", "EXP", "FLOOR", "LOG", "NEG", "ROUND", "SIN")},
    "SIGN": "Sign",
    "SQRT": "Sqrt",
    "LOGICAL_NOT": "Not",
    "ELU": "Elu",
}
BINARY = {
    "DIV": "Div",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "POW": "Pow",
    "PRELU": "PRelu",
    "EQUAL": "Equal",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
}


def elementwise(onnx: str) -> Reader:
    """What reads an operator that is ``onnx`` in ONNX and has one operand or two."""
    operands = defs.get_schema(onnx).min_input
    return partial(binary, onnx=onnx) if operands == 2 else partial(unary, steps=[(onnx, [], {})])


def unary(writer: Writer, op: Operator, steps: Sequence[Step] = ()) -> None:
    """A function of each element: ``steps``, or just a clamp or another quantization."""
    data = operand(writer, op, 0)
    clamp = op.kind if op.kind in CLAMPS else "NONE"
    if op.kind == "QUANTIZE":
        for index in (data, *op.outputs):
            if writer.tensor(index).dtype in ("int32", "int64"):
                raise ModelError(f"it takes or makes {writer.tensor(index).dtype}, which is not supported")
    writer.compute(op, writer.real(data), steps, writer.tensor(data).shape, clamp)


def dequantize(writer: Writer, op: Operator) -> None:
    """DEQUANTIZE; of a constant, as in models with weights of 16 bits, it is another constant."""
    data = operand(writer, op, 0)
    tensor, values = writer.tensor(data), writer.constant(data)
    if values is None:
        writer.compute(op, writer.real(data), [], tensor.shape)
    else:
        writer.hold(writer.result(op, tensor.shape), real_values(tensor, values))


def binary(
    writer: Writer, op: Operator, onnx: str, then: Sequence[Step] = (), names: Sequence[str] = ()
) -> None:
    """A function of two elements, of shapes that are broadcast as TFLite and numpy do.

    ``names`` are operands in their place, in their order of axes.
    """
    first, second = names or _both(writer, op)
    writer.compute(op, first, [(onnx, [second], {}), *then], _common(writer, op), fused(op.options))


def _common(writer: Writer, op: Operator) -> tuple[int, ...]:
    """The shape of a result of two operands."""
    shapes = [writer.tensor(operand(writer, op, place)).shape for place in (0, 1)]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ModelError(
            f"its operands {list(shapes[0])} and {list(shapes[1])} do not fit together"
        ) from None


def _both(writer: Writer, op: Operator) -> list[str]:
    """Two operands as real numbers, their axes in the order of the result's."""
    rank = len(_common(writer, op))
    return [ranked(writer, operand(writer, op, place), rank) for place in (0, 1)]


def scalar(writer: Writer, op: Operator, value: float, dtype: str = "float32") -> str:
    """The name of a new constant number."""
    return writer.nodes.constant(f"{op.name}/number", np.asarray(value, dtype))


def reciprocal_root(writer: Writer, op: Operator) -> None:
    """RSQRT."""
    unary(writer, op, [("Sqrt", [], {}), ("Reciprocal", [], {})])


def square(writer: Writer, op: Operator) -> None:
    """SQUARE."""
    unary(writer, op, [("Mul", [writer.real(operand(writer, op, 0))], {})])


def squared_difference(writer: Writer, op: Operator) -> None:
    """SQUARED_DIFFERENCE."""
    binary(writer, op, "Sub", [("Pow", [scalar(writer, op, 2.0)], {})])


def not_equal(writer: Writer, op: Operator) -> None:
    """NOT_EQUAL."""
    binary(writer, op, "Equal", [("Not", [], {})])


def floor_of_quotient(writer: Writer, op: Operator) -> None:
    """FLOOR_DIV. ONNX's quotient of integers is cut off: one too many where what is left has another sign."""
    if writer.tensor(operand(writer, op, 0)).dtype == "float32":
        binary(writer, op, "Div", [("Floor", [], {})])
        return
    first, second = _both(writer, op)
    _, across = _rest(writer, op, first, second)
    one, none = (scalar(writer, op, number, _kind(writer, op)) for number in (1, 0))
    more = _made(writer, op, across, ("Where", [one, none], {}))
    binary(writer, op, "Sub", names=[_made(writer, op, first, ("Div", [second], {})), more])


def rest_of_quotient(writer: Writer, op: Operator) -> None:
    """FLOOR_MOD: what is left has the sign of the divisor."""
    if writer.tensor(operand(writer, op, 0)).dtype != "float32":
        binary(writer, op, "Mod")
        return
    first, second = _both(writer, op)
    # By a quotient the rest of a number much larger than the divisor would be lost.
    rest, across = _rest(writer, op, first, second)
    more = _made(writer, op, across, ("Where", [second, scalar(writer, op, 0.0)], {}))
    binary(writer, op, "Add", names=[rest, more])


def _rest(writer: Writer, op: Operator, first: str, second: str) -> tuple[str, str]:
    """What is left of a quotient that is cut off, and whether that has another sign than the divisor."""
    zero = scalar(writer, op, 0, _kind(writer, op))
    rest = _made(writer, op, first, ("Mod", [second], {"fmod": 1}))
    below = _made(writer, op, second, ("Less", [zero], {}))
    some = _made(writer, op, rest, ("Equal", [zero], {}), ("Not", [], {}))
    return rest, _made(writer, op, rest, ("Less", [zero], {}), ("Xor", [below], {}), ("And", [some], {}))


def _kind(writer: Writer, op: Operator) -> str:
    """The type of integers that ``op`` takes; real numbers are float32."""
    tensor = writer.tensor(operand(writer, op, 0))
    return "float32" if tensor.quantized else str(tensor.dtype)


def _made(writer: Writer, op: Operator, value: str, *steps: Step) -> str:
    name = writer.nodes.name(f"{op.name}/rest")
    return writer.nodes.chain(value, steps, name, name)


def sum_of_all(writer: Writer, op: Operator) -> None:
    """ADD_N of tensors of one shape."""
    inputs = [operand(writer, op, place) for place in range(max(1, len(op.inputs)))]
    shape = writer.tensor(inputs[0]).shape
    if any(writer.tensor(index).shape != shape for index in inputs):
        raise ModelError("its inputs have several shapes")
    names = [writer.real(index) for index in inputs]
    writer.compute(op, names[0], [("Add", [name], {}) for name in names[1:]], shape)


def leaky(writer: Writer, op: Operator) -> None:
    """LEAKY_RELU."""
    unary(writer, op, [("LeakyRelu", [], {"alpha": float(op.options.Alpha())})])


def gelu(writer: Writer, op: Operator) -> None:
    """GELU, by erf or by tanh."""
    first = writer.real(operand(writer, op, 0))
    one, half = scalar(writer, op, 1.0), scalar(writer, op, 0.5)
    if op.options.Approximate():
        cubic, factor = scalar(writer, op, 0.044715), scalar(writer, op, math.sqrt(2 / math.pi))
        inner: list[Step] = [("Mul", [first], {}), ("Mul", [cubic], {}), ("Add", [one], {})]
        inner += [("Mul", [first], {}), ("Mul", [factor], {}), ("Tanh", [], {})]
    else:
        inner = [("Mul", [scalar(writer, op, math.sqrt(0.5))], {}), ("Erf", [], {})]
    # The half first: twice the largest numbers are infinite.
    unary(writer, op, [*inner, ("Add", [one], {}), ("Mul", [half], {}), ("Mul", [first], {})])


def cast(writer: Writer, op: Operator) -> None:
    """CAST of the numbers that are stored, whatever their scale; of complex ones, the real part."""
    data = operand(writer, op, 0)
    index = writer.result(op, writer.tensor(data).shape)
    if data in writer.spectra:
        writer.write(index, FILE, writer.spectra[data][0], [])
        return
    order, to = writer.order(index), helper.np_dtype_to_tensor_dtype(np.dtype(writer.tensor(index).dtype))
    kept = writer.stored(data, order)
    whole = np.dtype(writer.tensor(index).dtype)
    if not writer.tensor(data).dtype.startswith("float") or whole.kind not in "iu":
        writer.write(index, order, kept, [("Cast", [], {"to": to})])
        return
    # What is beyond a type's end becomes that end, and NaN the upper one.
    ends = np.iinfo(whole)
    below, above = (
        _made(writer, op, kept, ("Less", [scalar(writer, op, float(end), writer.tensor(data).dtype)], {}))
        for end in (ends.min, ends.max + 1)
    )
    least, most = (scalar(writer, op, end, str(whole)) for end in (ends.min, ends.max))
    numbers = _made(writer, op, kept, ("Cast", [], {"to": to}))
    numbers = _made(writer, op, above, ("Where", [numbers, most], {}))
    writer.write(index, order, below, [("Where", [least, numbers], {})])


def select(writer: Writer, op: Operator) -> None:
    """SELECT and SELECT_V2."""
    operands = [operand(writer, op, place) for place in range(3)]
    shapes = [writer.tensor(index).shape for index in operands]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ModelError(f"its operands {[list(shape) for shape in shapes]} do not fit together") from None
    names = [ranked(writer, index, len(shape)) for index in operands]
    writer.compute(op, names[0], [("Where", names[1:], {})], shape)
